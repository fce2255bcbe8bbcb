"""Times weft's own engine: see stopwatch.py. MODEL is a run or model folder, PRECISION fp32 or bf16."""

from typing import Any

import torch
from stopwatch import Sentence, measure, read_order

import weft
from weft.translating.loading import load_translator

SEARCH = ("decoding.length_penalty=fixed", "decoding.length_power=1", "decoding.stopping=first-k")

order = read_order()
torch.set_num_threads(order.threads)
translator = load_translator(order.model, [*SEARCH, f"decoding.precision={order.precision}"])
tokenizer = translator.model.vocabularies["target"]


def translate(sentences: list[Sentence], beam: int) -> list[tuple[str, int]]:
    search: dict[str, Any] = {"method": "greedy"} if beam == 1 else {"method": "beam", "beam_size": beam}
    texts = [found.text for found in translator.translate([sentence["text"] for sentence in sentences], **search)]
    return [(text, len(ids) + 1) for text, ids in zip(texts, tokenizer.encode(texts), strict=True)]


measure(translate, order, version=weft.__version__)
