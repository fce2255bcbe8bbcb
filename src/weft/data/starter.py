"""The starter corpus: 21,000 synthetic Chinese-English sentence pairs that come with weft, to train on at once.

The pairs were generated from templates and a lexicon. A Chinese sentence has exactly one English translation, so that a
small model learns the corpus in minutes; a score on it shows that training works, and says nothing about real text.

The held-out sentences are new combinations of known parts: every word of valid and test occurs in train, no sentence
does, and about a third of the sentences hold a pairing (a verb and its object, an activity and its place) that train
does not have. `starter.tsv.gz` holds the 20,000 pairs of train, the 500 of valid and the 500 of test, in this order.
"""

import gzip
from pathlib import Path

from weft.data.corpus_folder import README, put, refuse_replacing, staged_files, title

PAIRS = Path(__file__).with_name("starter.tsv.gz")
TRAIN_SIZE = 20_000
HELD_OUT_SIZE = 500
NAME = "The starter corpus"
DESCRIPTION = f"""\
{title(NAME)}

A synthetic Chinese-English corpus that comes with weft. Its sentences were generated from templates and a lexicon; they
are not real text. Use it to try weft: a first model trains in minutes without a download.

| file | pairs |
|---|---|
| train.tsv | {TRAIN_SIZE:,} |
| valid.tsv | {HELD_OUT_SIZE:,} |
| test.tsv | {HELD_OUT_SIZE:,} |

Each file is UTF-8 with the header `zh<tab>en`. No sentence, Chinese or English, occurs twice. Every word of valid and
test occurs in train, in other combinations. A score on test shows that training works; it does not say how well a model
translates real text.

License: Apache-2.0. Written by `weft corpus get starter`.
"""


def load() -> dict[str, list[tuple[str, str]]]:
    """Return the pairs (Chinese, English) of "train" (20,000), "valid" and "test" (500 each), all distinct."""
    _, *rows = gzip.decompress(PAIRS.read_bytes()).decode("utf-8").removesuffix("\n").split("\n")
    pairs = [(zh, en) for zh, en in (row.split("\t") for row in rows)]
    held_out = pairs[TRAIN_SIZE:]
    return {"train": pairs[:TRAIN_SIZE], "valid": held_out[:HELD_OUT_SIZE], "test": held_out[HELD_OUT_SIZE:]}


def write(folder: Path, *, force: bool = False) -> dict[str, list[tuple[str, str]]]:
    """Write train.tsv, valid.tsv, test.tsv (header `zh<tab>en`, UTF-8) and README.md into `folder`, made if missing.

    Files are written atomically; a file with the right content is left untouched. Raises UsageError if a file with
    different content exists, unless `force` is set.
    """
    corpus = load()
    texts = {
        folder / f"{name}.tsv": "".join(f"{zh}\t{en}\n" for zh, en in [("zh", "en"), *pairs])
        for name, pairs in corpus.items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    with staged_files([*texts, folder / README]) as staged:
        for target, text in {**texts, folder / README: DESCRIPTION}.items():
            staged[target].write_bytes(text.encode())
        refuse_replacing({target: staged[target] for target in texts}, folder, NAME, force)
        for target, file in staged.items():
            put(file, target)
    return corpus
