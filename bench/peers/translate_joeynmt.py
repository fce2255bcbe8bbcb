"""Times JoeyNMT: see stopwatch.py. MODEL is its recipe, by which a model with random weights is made.

It knows nothing, so it writes FORCED_LENGTH pieces a sentence. Ids come in and ids go out, so no time goes into text.
"""

import logging
from importlib.metadata import version

import torch
from joeynmt.batch import Batch  # pyright: ignore[reportMissingImports]
from joeynmt.config import load_config, parse_global_args  # pyright: ignore[reportMissingImports]
from joeynmt.model import build_model  # pyright: ignore[reportMissingImports]
from joeynmt.search import search  # pyright: ignore[reportMissingImports]
from joeynmt.vocabulary import build_vocab  # pyright: ignore[reportMissingImports]
from stopwatch import FORCED_LENGTH, Sentence, in_batches, measure, read_order

logging.disable(logging.WARNING)
order = read_order()
torch.set_num_threads(order.threads)
torch.manual_seed(1)
recipe = load_config(order.model) | {"use_cuda": False}
settings = parse_global_args(recipe, mode="translate")
source_vocabulary, target_vocabulary = build_vocab(settings.data)
model = build_model(settings.model, source_vocabulary, target_vocabulary).eval()
padding, end = source_vocabulary.pad_index, source_vocabulary.eos_index


def translate(sentences: list[Sentence], beam: int) -> list[tuple[str, int]]:
    answers = [("", 0)] * len(sentences)
    for places in in_batches(sentences, 64):
        rows = [[*map(source_vocabulary.lookup, sentences[place]["pieces"]), end] for place in places]
        longest = max(map(len, rows))
        batch = Batch(
            src=torch.tensor([[*row, *[padding] * (longest - len(row))] for row in rows]),
            src_length=torch.tensor([len(row) for row in rows]),
            src_prompt_mask=None,
            trg=None,
            trg_prompt_mask=None,
            indices=torch.arange(len(rows)),
            device=torch.device("cpu"),
            pad_index=padding,
            eos_index=end,
            is_train=False,
        )
        written, _, _ = search(
            model,
            batch,
            max_output_length=FORCED_LENGTH,
            min_output_length=FORCED_LENGTH,
            beam_size=beam,
            beam_alpha=1.0,
        )
        assert written.shape == (len(places), FORCED_LENGTH), written.shape
        for place in places:
            answers[place] = ("", FORCED_LENGTH)
    return answers


measure(translate, order, version=version("joeynmt"))
