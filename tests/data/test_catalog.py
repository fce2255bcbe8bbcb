"""The catalog says what is true and enough to check a download by; every corpus of it stands in the guide."""

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from weft.data.catalog import Corpus, catalog, find_corpus
from weft.errors import UsageError

ROOT = Path(__file__).parents[2]
CORPORA = catalog()
FILES = {(name, file.name): file for name, corpus in CORPORA.items() for file in corpus.files}
AT_A_COMMIT = re.compile(r"https://raw\.githubusercontent\.com/[\w.-]+/[\w.-]+/[0-9a-f]{40}/\S+")


@pytest.mark.parametrize("file", FILES.values(), ids=map("/".join, FILES))
def test_a_file_that_can_be_checked_lies_where_it_cannot_change(file) -> None:
    assert file.expected.has_digest == bool(AT_A_COMMIT.fullmatch(file.address))
    assert (file.sha256 is None) == (file.bytes is None)


def test_only_the_newest_edition_cannot_be_checked() -> None:
    unchecked = {corpus for (corpus, _), file in FILES.items() if not file.expected.has_digest}
    assert unchecked == {"tatoeba-zh-en-newest"}


@pytest.mark.parametrize("corpus", CORPORA.values(), ids=CORPORA)
def test_every_part_is_a_file_of_its_own_with_a_column_for_each_language(corpus: Corpus) -> None:
    assert len({part.name for part in corpus.parts}) == len({part.file for part in corpus.parts}) == len(corpus.parts)
    for part in corpus.parts:
        assert part.name == "all" or part.file.startswith(f"{part.name}.")
        if part.columns:
            assert {column.partition("_")[0] for column in part.columns} >= set(corpus.languages)
            assert len(part.inputs) in (1, len(part.columns))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_corpus_stands_in_the_guide_with_its_license(language: str) -> None:
    page = (ROOT / "docs" / language / "corpora.md").read_text(encoding="utf-8")
    for name, corpus in CORPORA.items():
        rows = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
        assert len(rows) == 1, name
        assert corpus.license.partition(",")[0] in rows[0] or corpus.license.startswith("none"), name


def test_an_unknown_name_is_refused_with_the_near_one() -> None:
    with pytest.raises(UsageError, match="did you mean `multi30k-en-de`"):
        find_corpus("multi30k-de-en")
    with pytest.raises(UsageError, match="known: starter, tatoeba-zh-en, "):
        find_corpus("???")


def test_any_corpus_of_opus_has_a_name_whichever_way_its_pair_is_written() -> None:
    corpus = find_corpus("opus/Tatoeba/v2023-04-12/zh_CN-en")
    (file,), (part,) = corpus.files, corpus.parts
    assert file.address == "https://object.pouta.csc.fi/OPUS-Tatoeba/v2023-04-12/moses/en-zh_CN.txt.zip"
    assert not file.expected.has_digest
    assert part.columns == ("zh_CN", "en")
    assert [given.member for given in part.inputs] == ["Tatoeba.en-zh_CN.zh_CN", "Tatoeba.en-zh_CN.en"]  # pyright: ignore


@pytest.mark.parametrize("name", ["opus", "opus/Tatoeba", "opus/Tatoeba/v1/de", "opus/T/v1/en-en", "opus/../v1/de-en"])
def test_a_name_that_is_none_of_opus_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="must be opus/CORPUS/VERSION/PAIR"):
        find_corpus(name)


def test_a_catalog_whose_parts_and_files_do_not_fit_is_refused() -> None:
    table = CORPORA["pud-zh-en"].model_dump()
    with pytest.raises(ValidationError, match="each file must be used by a part"):
        Corpus.model_validate({**table, "files": table["files"][:1]})
