r"""n-gram models as ARPA files, the format of KenLM and SRILM: log10 p, the n-gram, and log10 of its back-off weight.

    \data\
    ngram 1=6
    ngram 2=8

    \1-grams:
    -0.7781513	the	-0.30103
    ...
    \2-grams:
    -0.1760913	the cat
    ...
    \end\
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from weft.errors import ModelError, Problem
from weft.files import lines_of, open_to_write, staged_file
from weft.text.ngrams import LEAST, Ngrams
from weft.text.vocabulary import BEGIN_ID, PADDING_ID, SPECIAL_PIECES, UNKNOWN_ID

ZERO = -99.0
"""log10 of a probability of 0 in the files."""
NATS = math.log(10)
"""Nats of a unit of log10."""


def write_arpa(path: Path, ngrams: Ngrams, tokens: Sequence[str]) -> None:
    """Write the n-grams, without <pad>, to a file, which is compressed if its name ends with .gz. `tokens` holds the
    token of each id. Raises WeftError if the file cannot be written."""
    with staged_file(path) as staged, open_to_write(staged) as file:
        sizes = [len(log_probs) for log_probs in ngrams.log_probs]
        sizes[0] -= 1
        file.write("".join(["\\data\\\n", *(f"ngram {n}={size}\n" for n, size in enumerate(sizes, 1))]).encode())
        for order in range(1, ngrams.order + 1):
            file.write(f"\n\\{order}-grams:\n".encode())
            file.writelines(line.encode() for line in arpa_lines(ngrams, tokens, order))
        file.write(b"\n\\end\\\n")


def arpa_lines(ngrams: Ngrams, tokens: Sequence[str], order: int) -> Iterator[str]:
    log_probs = np.maximum(ngrams.log_probs[order - 1].astype(float) / NATS, ZERO).tolist()
    backoffs = None if order == ngrams.order else (ngrams.backoffs[order - 1].astype(float) / NATS).tolist()
    ngrams_as_ids: list[list[int]] = ngrams.tokens_of(order).tolist()
    for number, ids in enumerate(ngrams_as_ids):
        if ids != [PADDING_ID]:
            end = "" if backoffs is None else f"\t{backoffs[number]:.8g}"
            yield f"{log_probs[number]:.8g}\t{' '.join([tokens[i] for i in ids])}{end}\n"


def read_arpa(path: Path) -> tuple[Ngrams, tuple[str, ...]]:
    """Read the n-grams of a file and the token of each id: first SPECIAL_PIECES, then the others in the file's order.

    Raises CorpusError if the file cannot be read, and ModelError if it is not such a file. A missing <unk> has
    probability 0; <UNK> is another name for it.
    """
    sections = read_sections(path)
    if twice := [word for word, count in Counter(sections[0].words).items() if count > 1]:
        raise ModelError(path, [Problem("1-grams", f"{twice[0]} stands there twice")])
    tokens = (*SPECIAL_PIECES, *dict.fromkeys(w for w in sections[0].words if w not in SPECIAL_PIECES))
    ids = {token: number for number, token in enumerate(tokens)}
    first = np.array([ids[word] for word in sections[0].words], np.int64)
    unigrams = np.full(len(tokens), LEAST), np.zeros(len(tokens))
    unigrams[0][first], unigrams[1][first] = sections[0].log_probs, sections[0].backoffs
    unigrams[0][[PADDING_ID, BEGIN_ID]] = LEAST
    keys, log_probs, backoffs = [], [unigrams[0].astype(np.float32)], [unigrams[1].astype(np.float32)]
    ngrams = Ngrams(keys, log_probs, backoffs)
    for order, section in enumerate(sections[1:], start=2):
        words = np.array([ids.get(word, -1) for word in section.words], np.int64).reshape(-1, order)
        context = words[:, 0]
        for n in range(2, order):
            context = ngrams.find(context, words[:, n - 1], n)
        wanted = context * len(tokens) + words[:, -1]
        by_key = np.argsort(wanted)
        if (words < 0).any() or (context < 0).any() or (np.diff(wanted[by_key]) == 0).any():
            what = (
                "each n-gram may stand there once, its words among the 1-grams and its beginning in the section before"
            )
            raise ModelError(path, [Problem(f"{order}-grams", what)])
        keys.append(wanted[by_key])
        log_probs.append(np.array(section.log_probs, np.float32)[by_key])
        backoffs.append(np.array(section.backoffs, np.float32)[by_key])
    backoffs.pop()
    return ngrams, tokens


@dataclass
class Section:
    """The n-grams of one order in the order of a file, their numbers in nats; `words` holds those of all in a row."""

    words: list[str]
    log_probs: list[float]
    backoffs: list[float]


def read_sections(path: Path) -> list[Section]:
    sections: list[Section] = []
    for number, line in enumerate(lines_of(path), start=1):
        fields, order = line.split(), len(sections)
        try:
            if fields == [b"\\end\\"]:
                if order:
                    return sections
            elif len(fields) == 1 and fields[0].endswith(b"-grams:"):
                if fields[0] != f"\\{order + 1}-grams:".encode():
                    raise ValueError(f"must be \\{order + 1}-grams:")
                sections.append(Section([], [], []))
            elif order and fields:
                log_prob, backoff = float(fields[0]), float(fields[order + 1]) if len(fields) == order + 2 else 0.0
                if len(fields) not in (order + 1, order + 2) or not (log_prob <= 0 and abs(backoff) <= -ZERO):
                    raise ValueError(
                        f"must be a number that is not positive, {order} words, and at most a second number"
                    )
                words = [field.decode() for field in fields[1 : order + 1]]
                sections[-1].words += [SPECIAL_PIECES[UNKNOWN_ID] if word == "<UNK>" else word for word in words]
                sections[-1].log_probs.append(LEAST if log_prob <= ZERO else log_prob * NATS)
                sections[-1].backoffs.append(backoff * NATS)
        except ValueError as error:
            raise ModelError(path, [Problem(f"line {number}", str(error))]) from None
    raise ModelError(path, [Problem("the file", "is not a complete ARPA file: it has no 1-grams, or no \\end\\")])
