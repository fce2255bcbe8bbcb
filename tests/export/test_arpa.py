"""n-gram models by `weft export --to arpa`, and back by `weft import`."""

import math
from pathlib import Path

import pytest
from tests.command_line import Weft
from tests.tasks.language_models import ngram_recipe

from weft import load
from weft.runs.train import train

TRAIN = ["Tom reads a book .", "Mary reads two books .", "Tom has a cat ,", "Mary has no cat .", "a cat reads ."]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ngrams")
    (folder / "train.txt").write_text("".join(f"{line}\n" for line in TRAIN))
    (folder / "valid.txt").write_text("Tom has two cats .\nMary reads a book .\n")
    return train(ngram_recipe(kind="whitespace"), run=folder / "run", data=folder)


def test_kenlm_gives_a_text_the_probability_that_the_model_gives(run: Path, tmp_path: Path, weft: Weft) -> None:
    kenlm = pytest.importorskip("kenlm")
    code, _, _ = weft("export", "--model", str(run), "--to", "arpa", "--output", str(tmp_path / "lm.arpa"))
    assert code == 0
    theirs = kenlm.Model(str(tmp_path / "lm.arpa"))
    for text, log_prob in zip(TRAIN, load(run).log_probs(TRAIN), strict=True):
        assert theirs.score(text) == pytest.approx(log_prob / math.log(10), abs=1e-4)


def test_the_pieces_of_a_language_model_have_no_side(run: Path, weft: Weft) -> None:
    assert weft("tokenize", "--model", str(run), "Tom reads")[0] == 0
    code, _, said = weft("tokenize", "--model", str(run), "--side", "target", "Tom reads")
    assert code == 2 and "has one vocabulary; leave out --side" in said


def test_an_exported_model_is_imported_as_it_was(run: Path, tmp_path: Path, weft: Weft) -> None:
    file, folder = str(tmp_path / "lm.arpa.gz"), str(tmp_path / "imported")
    assert weft("export", "--model", str(run), "--to", "arpa", "--output", file)[0] == 0
    code, _, said = weft("import", file, "--output", folder, "--source", "en")
    assert code == 0 and "holds n-grams: order 3" in said
    texts = [*TRAIN, "Tom knows nobody ."]
    assert load(folder).log_probs(texts) == pytest.approx(load(run).log_probs(texts), abs=1e-4)


def test_words_that_no_text_has_are_counted_and_pieces_are_refused(run: Path, tmp_path: Path, weft: Weft) -> None:
    lines = ["\\data\\", "ngram 1=4", "", "\\1-grams:", "-1 <UNK>", "-1 <s>", "-1 </s>", "-0.5 a", "-0.7 cafe\u0301"]
    (tmp_path / "lm.arpa").write_text("\n".join([*lines, "-1 dog", "", "\\end\\", ""]), encoding="utf-8")
    code, _, said = weft("import", str(tmp_path / "lm.arpa"), "--output", str(tmp_path / "lm"), "--source", "en")
    assert code == 0 and "1 of 7 words stand in no text as weft reads it, such as cafe\u0301" in said
    assert load(tmp_path / "lm").log_probs(["a zzz"]) == pytest.approx([-2.5 * math.log(10)])
    pieces = train(ngram_recipe(kind="words"), run=tmp_path / "run", data=run.parent)
    assert weft("export", "--model", str(pieces), "--to", "arpa", "--output", str(tmp_path / "pieces.arpa"))[0] == 0
    code, _, error = weft("import", str(tmp_path / "pieces.arpa"), "--output", str(tmp_path / "no"), "--source", "en")
    assert code == 1 and "are they the pieces of a tokenizer?" in error and not (tmp_path / "no").exists()


def test_more_orders_than_weft_takes_are_refused(tmp_path: Path, weft: Weft) -> None:
    sections = [f"\\{n}-grams:\n-1{' a' * n}" for n in range(2, 102)]
    lines = ["\\data\\", "\\1-grams:\n-1 <unk>\n-1 <s>\n-1 </s>\n-1 a", *sections, "\\end\\", ""]
    (tmp_path / "lm.arpa").write_text("\n".join(lines))
    code, _, error = weft("import", str(tmp_path / "lm.arpa"), "--output", str(tmp_path / "lm"), "--source", "en")
    assert code == 1 and "101-grams" in error and "weft takes 100-grams at most" in error


def test_a_word_that_means_something_else_in_the_format_is_refused(run: Path, tmp_path: Path, weft: Weft) -> None:
    (tmp_path / "train.txt").write_text("the <unk> of\n" * 9, encoding="utf-8")
    (tmp_path / "valid.txt").write_text("the of\n", encoding="utf-8")
    odd = train(ngram_recipe(kind="whitespace"), run=tmp_path / "run", data=tmp_path)
    code, _, error = weft("export", "--model", str(odd), "--to", "arpa", "--output", str(tmp_path / "lm.arpa"))
    assert code == 2 and "has learned <unk> as a word" in error and not (tmp_path / "lm.arpa").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["export", "--to", "arpa", "--output", "RUN/new", "--precision", "int8"], "--to cannot be combined"),
        (["export", "--to", "arpa", "--output", "RUN/config.toml"], "exists already"),
        (["import", "RUN/config.toml", "--output", "RUN/new"], "give --source"),
        (["import", "RUN/config.toml", "--output", "RUN/new", "--source", "en"], "is not a complete ARPA file"),
        (["import", "RUN/config.toml", "--output", "RUN/new", "--source", "en", "--target", "en"], "one language"),
    ],
)
def test_what_cannot_be_done_is_refused_in_words(run: Path, weft: Weft, arguments: list[str], said: str) -> None:
    model = ["--model", str(run)] if arguments[0] == "export" else []
    code, _, error = weft(*[argument.replace("RUN", str(run)) for argument in arguments], *model)
    assert code != 0 and said in error
    assert not (run / "new").exists()


def test_only_an_ngram_model_is_written_as_arpa(tmp_path: Path, weft: Weft) -> None:
    code, _, error = weft("export", "--model", "zh-en", "--to", "arpa", "--output", str(tmp_path / "lm.arpa"))
    assert code == 2 and "needs a model for language-model" in error
