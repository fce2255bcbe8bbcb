"""Whether an answer depends on what else is in its batch: `make bench-invariance`, or `python -m bench.invariance`.

500 sentences of zh-en-50k/valid, greedy and by a beam of 3, are translated in sorted batches, alone, in random batches,
by the plain form of the model with a cache (`TransformerState`) and by the model without any cache, in fp32; and in
bf16 as weft runs it. A figure is how many of the token sequences differ from those of sorted batches in the same
precision. Each is a line of bench/results/invariance.jsonl; `--docs` puts the table into docs/*/decoding.md.
"""

import argparse
import random
from collections.abc import Callable, Iterable

import numpy as np
import torch
from bench.machine import RESULTS, Line, append_line, markdown_table, new_session, say
from bench.options import VALID, parser_of, run_benchmark
from jaxtyping import Float, Int
from torch import Tensor

from weft.data.corpus import read_corpora
from weft.data.sentences import Sentences
from weft.decoding.search import DecodingConfig, search
from weft.decoding.step import StepFunction
from weft.folders.finding import find_model
from weft.folders.model_folder import load_model
from weft.models.transformer import Transformer
from weft.runtime import PRECISIONS
from weft.text.vocabulary import BEGIN_ID, END_ID
from weft.translating.batches import batches_by_length, computing_in, encode_sources

LINES = RESULTS / "invariance.jsonl"
SENTENCES, BATCH = 500, 40

Start = Callable[[Transformer, Tensor, int], StepFunction]
Ids = list[tuple[int, ...]]


class Uncached:
    """A step function that reads all of every hypothesis again at each step."""

    def __init__(self, model: Transformer, source: Int[Tensor, "batch source"], rows: int) -> None:
        self.model = model
        self.source = source.repeat_interleave(rows, dim=0)
        self.written = source.new_empty(len(self.source), 0)

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        self.written = torch.cat([self.written, tokens[:, None]], dim=1)
        return self.model(self.source, self.written)[:, -1].float().log_softmax(-1)

    def reorder(self, rows: Int[Tensor, " new_rows"]) -> None:
        self.source, self.written = self.source[rows], self.written[rows]


STARTS: dict[str, Start] = {
    "session": lambda model, source, rows: model.start(source, rows),
    "plain": lambda model, source, rows: model.start_plain(source, rows),
    "uncached": Uncached,
}


def main() -> None:
    parser = parser_of("invariance", "Answers and their batches.", model=True)
    run_benchmark(parser, measure, LINES, table, "decoding.md")


def measure(options: argparse.Namespace) -> None:
    loaded = load_model(find_model(options.model))
    model = loaded.network.eval()
    settings = loaded.recipe.data
    sources = encode_sources(loaded, read_corpora(VALID, settings, options.data).sources[:SENTENCES])
    session = {**new_session(), "model": options.model.name}
    places = list(range(SENTENCES))
    random.Random(1).shuffle(places)
    at_random = [np.array(places[first : first + BATCH]) for first in range(0, SENTENCES, BATCH)]
    alone = [np.array([place]) for place in range(SENTENCES)]
    for method in ("greedy", "beam"):
        config = DecodingConfig(method=method, beam_size=3, length_penalty="fixed")
        in_order = list(batches_by_length(sources, config.batch_tokens, config.rows(1)))
        ways = {
            "alone": ("session", alone),
            "random": ("session", at_random),
            "plain": ("plain", in_order),
            "uncached": ("uncached", in_order),
        }
        for precision in ("fp32", "bf16"):
            with computing_in(model, PRECISIONS[precision]):
                found = translate(STARTS["session"], model, sources, in_order, config)
                for way, (start, batches) in ways.items():
                    others = translate(STARTS[start], model, sources, batches, config)
                    differing = sum(ours != theirs for ours, theirs in zip(found, others, strict=True))
                    line = {"method": method, "precision": precision, "way": way, "differing": differing}
                    append_line(LINES, {**session, **line, "sentences": SENTENCES})
                    say(f"{method} {precision}, {way}: {differing} of {SENTENCES} differ")


@torch.inference_mode()
def translate(
    start: Start, model: Transformer, sources: Sentences, batches: Iterable[np.ndarray], config: DecodingConfig
) -> Ids:
    """The tokens of the best hypothesis of every sentence, in batches of these places."""
    found: dict[int, tuple[int, ...]] = {}
    for places in batches:
        source = torch.from_numpy(sources.padded(places))
        lengths = torch.from_numpy(sources.lengths[places] - 1)
        state = start(model, source, config.rows(1))
        hypotheses = search(state, lengths, config, begin_id=BEGIN_ID, end_id=END_ID)
        found.update((int(place), best.tokens) for place, (best, *_) in zip(places, hypotheses, strict=True))
    return [found[place] for place in range(len(found))]


HEADERS = {
    "en": ["search", "precision", "alone", "random batches", "plain form", "no cache"],
    "zh": ["搜索", "精度", "逐句", "随机批次", "朴素形式", "无缓存"],
}
METHODS = {"en": {"greedy": "greedy", "beam": "beam of 3"}, "zh": {"greedy": "贪心", "beam": "束宽 3"}}
CAPTIONS = {
    "en": "Of {sentences} sentences of zh-en-50k/valid, those whose tokens differ from sorted batches in the same "
    "precision; `{model}`. {processor}, weft {commit}, {date}; `python -m bench.invariance`.",
    "zh": "zh-en-50k/valid 的 {sentences} 个句子中，词元与同精度下排序批次的结果不同的句数；模型 `{model}`。"
    "{processor}，weft {commit}，{date}；`python -m bench.invariance`。",
}


def table(session: list[Line], language: str) -> str:
    counts = {(line["method"], line["precision"], line["way"]): line["differing"] for line in session}
    rows = [
        [METHODS[language][method], precision]
        + [str(counts.get((method, precision, way), "–")) for way in ("alone", "random", "plain", "uncached")]
        for method, precision in dict.fromkeys((method, precision) for method, precision, _ in counts)
    ]
    return f"{markdown_table(HEADERS[language], rows, text_columns=2)}\n\n{CAPTIONS[language].format(**session[0])}"


if __name__ == "__main__":
    main()
