"""Times eole: see stopwatch.py. MODEL is a folder that `eole train` wrote after one step.

It knows nothing, so it writes FORCED_LENGTH pieces a sentence. Pieces come in and pieces go out.
"""

import logging
from importlib.metadata import version

import torch
from eole.config.run import PredictConfig  # pyright: ignore[reportMissingImports]
from eole.inference_engine import InferenceEnginePY  # pyright: ignore[reportMissingImports]
from stopwatch import FORCED_LENGTH, Sentence, in_batches, measure, read_order

logging.disable(logging.INFO)
order = read_order()
torch.set_num_threads(order.threads)


def engine(beam: int) -> InferenceEnginePY:
    config = PredictConfig(
        model_path=[str(order.model)],
        src="not looked at",
        beam_size=beam,
        min_length=FORCED_LENGTH - 1,
        max_length=FORCED_LENGTH,
        batch_type="sents",
        batch_size=64,
        compute_dtype=order.precision,
    )
    return InferenceEnginePY(config)


engines: dict[int, InferenceEnginePY] = {}


def translate(sentences: list[Sentence], beam: int) -> list[tuple[str, int]]:
    if beam not in engines:
        engines[beam] = engine(beam)
    places = [place for batch in in_batches(sentences, 64) for place in batch]
    _, _, found = engines[beam].infer_list([" ".join(sentences[place]["pieces"]) for place in places])
    answers = [("", 0)] * len(sentences)
    for place, (text,) in zip(places, found, strict=True):
        assert len(text.split()) <= FORCED_LENGTH, text  # fewer where a piece is white space
        answers[place] = (text, FORCED_LENGTH)
    return answers


measure(translate, order, version=version("eole"))
