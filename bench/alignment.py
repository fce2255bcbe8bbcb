"""Whose attention aligns words best: `python -m bench.alignment --model RUN --data DIR`.

Nobody has aligned zh-en-50k by hand. What the layers are held against is a lexicon: IBM Model 1 in both directions,
learned from the training pairs (weft/data/doctor/lexicon.py). A link counts where each of two words is the likeliest
partner of the other in its pair and both directions hold it probable. Of the first pairs of valid, the reference is
given to the model (teacher forcing), and of every target word with such a link it is asked whether its best source word
is the same: by the mean over the heads of each decoder layer, by that of all layers together, and by occlusion.

One line for each run in bench/results/alignment.jsonl, with the share of links found.
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from bench.machine import RESULTS, Line, append_line, circumstances, say

from weft.data.corpus import ParallelText, read_corpora
from weft.data.doctor.lexicon import Lexicon, learn
from weft.evaluating.explanation import Explanation, Link, align, explain, mean_over_heads
from weft.text.normalization import PIECE_MARK
from weft.text.words import cut_words, han_cutter
from weft.translating.loading import load_translator
from weft.translating.translator import Translator

LINES = RESULTS / "alignment.jsonl"
PAIRS = 500
SURE = 0.2
"""Either direction must hold a link at least so probable."""

Pair = tuple[int, int]  # source word, target word


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="a run of recipes/zh-en-50k.toml")
    parser.add_argument("--data", type=Path, default=os.environ.get("WEFT_DATA"), help="where zh-en-50k lies")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    options = parser.parse_args()
    if options.data is None:
        parser.error("say where zh-en-50k lies: --data DIR, or WEFT_DATA in the environment")
    translator = load_translator(options.model)
    settings = translator.model.recipe.data
    lexicon = learn_words(translator, read_corpora(settings.train, settings, options.data))
    valid = read_corpora(settings.valid, settings, options.data)
    pairs = list(zip(valid.sources[: options.pairs], valid.targets[: options.pairs], strict=True))
    line: Line = {**circumstances(), "model": options.model.name, "epochs": translator.model.recipe.training.epochs}
    line |= {"pairs": len(pairs), "sure": SURE, **agreement(translator, lexicon, pairs)}
    append_line(LINES, line)
    say(", ".join(f"{name}: {line[name]}" for name in ("links", "layers", "all_layers", "occlusion")))


def learn_words(translator: Translator, pairs: ParallelText) -> Lexicon:
    tokenizers = translator.model.vocabularies["source"], translator.model.vocabularies["target"]
    languages = translator.model.recipe.data.source, translator.model.recipe.data.target
    sides = [
        [[known(word) for word in cut_words(tokenizer.normalize(text), han_cutter(language))] for text in texts]
        for tokenizer, language, texts in zip(tokenizers, languages, (pairs.sources, pairs.targets), strict=True)
    ]
    lexicon = learn(*sides)
    assert lexicon is not None, "the training pairs are too few"
    return lexicon


def known(word: str) -> str:
    return word.removeprefix(PIECE_MARK).lower()


def agreement(translator: Translator, lexicon: Lexicon, pairs: Sequence[tuple[str, str]]) -> Line:
    layers = translator.model.recipe.model.attending_layers
    links, of_layers, of_all, of_occlusion = 0, np.zeros(layers), 0, 0
    for source, target in pairs:
        explained = explain(translator, source, target=target)
        sure = sure_links(lexicon, explained)
        links += len(sure)
        words = explained.source_words, explained.target_words
        for layer in range(layers):
            of_layers[layer] += len(aligned(align(mean_over_heads(explained.heads, layer + 1), *words)) & sure)
        of_all += len(aligned(align(explained.attention, *words)) & sure)
        of_occlusion += len(aligned(explained.alignment) & sure)
    return {
        "links": links,
        "layers": [round(float(share), 3) for share in of_layers / links],
        "all_layers": round(of_all / links, 3),
        "occlusion": round(of_occlusion / links, 3),
    }


def aligned(links: Sequence[Link]) -> set[Pair]:
    return {(link.source, link.target) for link in links}


def sure_links(lexicon: Lexicon, explained: Explanation) -> set[Pair]:
    """Words that are each other's likeliest partner in the pair."""
    sources = [lexicon.source.numbers.get(known(word.text), -1) for word in explained.source_words]
    targets = [lexicon.target.numbers.get(known(word.text), -1) for word in explained.target_words]
    forward, backward = np.zeros((2, len(sources), len(targets)))
    for i, source in enumerate(sources):
        for j, target in enumerate(targets):
            if source >= 0 and target >= 0:
                key = source * len(lexicon.target.frequency) + target
                place = min(int(np.searchsorted(lexicon.keys, key)), len(lexicon.keys) - 1)
                if lexicon.keys[place] == key:
                    forward[i, j], backward[i, j] = lexicon.forward[place], lexicon.backward[place]
    return {
        (i, j)
        for i in range(len(sources))
        for j in range(len(targets))
        if min(forward[i, j], backward[i, j]) >= SURE
        and forward[:, j].argmax() == i
        and backward[i].argmax() == j
        and targets.count(targets[j]) == sources.count(sources[i]) == 1
    }


if __name__ == "__main__":
    main()
