"""Pairs in two text files, a table with commas or a memory: verbs take them as they take a TSV, and find the same."""

import json
from pathlib import Path

import pytest
from tests.command_line import Weft

FORMS = {
    "two texts": ("v.zh", "v.en"),
    "two texts the other way": ("v.en", "v.zh"),
    "repeated": ("v.zh", "--data", "v.en"),
    "with CRLF": ("crlf_zh.txt", "crlf_en.txt"),
    "commas": ("v.csv",),
    "memory": ("v.tmx",),
}
VERBS = {
    "evaluate": ("evaluate", "--model", "RUN", "--json", "-"),
    "noise": ("evaluate", "--model", "RUN", "--noise", "--json", "-"),
    "methods": ("evaluate", "--model", "RUN", "--methods", "greedy,beam:2", "--json", "-"),
    "compare": ("compare", "RUN", "a.txt", "--json", "-"),
    "score": ("score", "--model", "RUN", "--json", "-"),
}


@pytest.fixture
def pairs(tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """A folder with the pairs of valid.tsv in every form, and translations (a.txt)."""
    monkeypatch.chdir(tmp_path)
    text = (tiny_run / "valid.tsv").read_text(encoding="utf-8")
    pairs = [tuple(line.split("\t")) for line in text.splitlines()[1:]]
    units = "".join(
        f'<tu><tuv xml:lang="zh"><seg>{zh}</seg></tuv><tuv xml:lang="en"><seg>{en}</seg></tuv></tu>' for zh, en in pairs
    )
    for name, content in {
        "v.tsv": text,
        "v.csv": "zh,en\n" + "".join(f'"{zh}","{en}"\n' for zh, en in pairs),
        "v.tmx": f"<tmx><header/><body>{units}</body></tmx>",
        **{f"v.{code}": "".join(f"{pair[side]}\n" for pair in pairs) for side, code in enumerate(("zh", "en"))},
        **{
            f"crlf_{code}.txt": "".join(f"{pair[side]}\r\n" for pair in pairs) for side, code in enumerate(("zh", "en"))
        },
        "a.txt": "".join(f"{en}\n" for _, en in pairs),
    }.items():
        Path(name).write_bytes(content.encode())
    return pairs


def found(weft: Weft, tiny_run: Path, verb: str, *data: str) -> object:
    """What a verb prints, without what differs from call to call."""
    exit_code, out, error = weft(
        *(str(tiny_run / "run") if word == "RUN" else word for word in VERBS[verb]), "--data", *data
    )
    assert (exit_code, error) == (0, "")

    def bare(value: object) -> object:
        if isinstance(value, dict):
            return {key: bare(of) for key, of in value.items() if "second" not in key and key != "data"}
        return [bare(of) for of in value] if isinstance(value, list) else value

    return bare(json.loads(out))


@pytest.mark.parametrize("verb", VERBS)
def test_pairs_in_any_form_are_the_pairs_of_a_tsv(
    weft: Weft, tiny_run: Path, pairs: list[tuple[str, ...]], verb: str
) -> None:
    expected = found(weft, tiny_run, verb, "v.tsv")
    for form in FORMS.values() if verb == "evaluate" else [FORMS["two texts"]]:  # they have one reader
        assert found(weft, tiny_run, verb, *form) == expected


def test_options_may_come_before_and_after_two_text_files(weft: Weft, pairs: list[tuple[str, ...]]) -> None:
    command = ("compare", "--data", "v.zh", "v.en", "a.txt", "v.en", "--source", "zh", "--target", "en", "--json", "-")
    exit_code, out, _ = weft(*command)
    assert exit_code == 0 and json.loads(out)["systems"].keys() == {"a.txt", "v.en"}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (("v.zh",), "give text files two by two"),
        (("v.zh", "missing.en"), "unexpected extra argument"),
        (("v.zh", "--data", "missing.en"), "the file  does not exist"),
        (("v.zh", "--data", "v.en", "--data", "a.txt"), "a.txt has no partner"),
        (("v.xlsx",), "save the table as .csv"),
    ],
)
def test_what_is_no_pair_of_files_is_one_clear_error(
    weft: Weft, tiny_run: Path, pairs: list[tuple[str, ...]], data: tuple[str, ...], says: str
) -> None:
    exit_code, out, error = weft("evaluate", "--model", str(tiny_run / "run"), "--data", *data)
    assert exit_code in (1, 2) and out == "" and says in error


def test_a_doctor_takes_the_languages_from_the_names(weft: Weft, pairs: list[tuple[str, ...]]) -> None:
    exit_code, out, error = weft("doctor", "v.zh", "v.en")
    assert exit_code in (0, 1) and "v.zh: 5 pairs" in out and "missing" not in error
    assert "two names" not in weft("doctor", "v.csv", "--source", "zh", "--target", "en")[2]
    assert "v.tmx: 5 pairs" in weft("doctor", "v.tmx", "--source", "zh", "--target", "en")[1]
