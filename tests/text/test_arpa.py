"""ARPA files as KenLM reads them, and as they are read back."""

from pathlib import Path

import numpy as np
import pytest
from tests.text.test_ngrams import BEGIN, END, in_a_row, texts

from weft.errors import ModelError
from weft.text.arpa import read_arpa, write_arpa
from weft.text.ngrams import estimate
from weft.text.vocabulary import SPECIAL_PIECES

WORDS = (*SPECIAL_PIECES, *(f"word{n}" for n in range(36)))


def written(path: Path, order: int) -> Path:
    ngrams, _ = estimate(in_a_row(texts(1)), order, len(WORDS))
    write_arpa(path, ngrams, WORDS)
    return path


@pytest.mark.parametrize("order", [2, 3, 5])
def test_kenlm_reads_from_the_file_the_probability_that_weft_gives(tmp_path: Path, order: int) -> None:
    kenlm = pytest.importorskip("kenlm")
    path = written(tmp_path / "lm.arpa", order)
    ngrams, _ = read_arpa(path)
    model = kenlm.Model(str(path))
    for text in texts(2, 1000, words=40):
        ids = [token if token < len(WORDS) else 1 for token in text]
        ours = ngrams.token_log_probs(in_a_row([ids])).sum() / np.log(10)
        assert model.score(" ".join(WORDS[i] for i in ids)) == pytest.approx(ours, abs=1e-4)


@pytest.mark.parametrize("name", ["lm.arpa", "lm.arpa.gz"])
@pytest.mark.parametrize("order", [1, 3])
def test_what_is_written_is_read_back(tmp_path: Path, name: str, order: int) -> None:
    ngrams, _ = estimate(in_a_row(texts(1)), order, len(WORDS))
    write_arpa(tmp_path / name, ngrams, WORDS)
    again, tokens = read_arpa(tmp_path / name)
    assert tokens == WORDS
    for ours, read in (
        (ngrams.keys, again.keys),
        (ngrams.log_probs, again.log_probs),
        (ngrams.backoffs, again.backoffs),
    ):
        assert len(ours) == len(read)
        for one, other in zip(ours, read, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)


def test_a_file_of_another_tool_may_be_in_any_order_and_lack_unknown_words(tmp_path: Path) -> None:
    lines = ["\\data\\", "ngram 1=4", "ngram 2=2", ""]
    lines += ["\\1-grams:", "-0.5 b -0.1", "-99 <s> -0.2", "-0.4 a", "-0.6 </s>"]
    lines += ["", "\\2-grams:", "-0.3 b a", "-0.2 <s> b", "", "\\end\\", ""]
    (tmp_path / "lm.arpa").write_text("\n".join(lines))
    ngrams, tokens = read_arpa(tmp_path / "lm.arpa")
    assert tokens == (*SPECIAL_PIECES, "b", "a")
    found = ngrams.token_log_probs(np.array([BEGIN, 4, 5, END])) / np.log(10)
    assert found.tolist() == pytest.approx([0, -0.2, -0.3, -0.6])
    assert ngrams.token_log_probs(np.array([BEGIN, 1]))[1] < -1000


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("\\end\\", "", "is not a complete ARPA file"),
        ("\\2-grams:", "\\3-grams:", r"line \d+ +must be \\2-grams:"),
        ("\\2-grams:\n-", "\\2-grams:\n", "number that is not positive, 2 words"),
        ("\\2-grams:\n", "\\2-grams:\n-1 word0 strange 0\n", "2-grams +each n-gram may stand there once"),
        ("\\1-grams:\n", "\\1-grams:\n-1 word0 0\n", "1-grams +word0 stands there twice"),
        ("\\1-grams:\n", "\\1-grams:\n-1 <UNK> 0\n", "1-grams +<unk> stands there twice"),
        ("\\2-grams:\n", "\\2-grams:\n-1 word0\n", "number that is not positive, 2 words"),
        ("\\2-grams:\n", "\\2-grams:\n-nan word0 word0\n", "number that is not positive, 2 words"),
    ],
)
def test_a_spoiled_file_is_refused_with_the_place(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = written(tmp_path / "lm.arpa", 2)
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ModelError, match=said):
        read_arpa(path)
