"""The reliability tests tell their results in both languages, and each has its place in the page about them."""

import argparse
import string

import pytest
from bench.machine import ROOT
from bench.reliability.__main__ import SUITE

MODULES = SUITE.modules()


def fields(text: str) -> set[str]:
    return {field for _, field, _, _ in string.Formatter().parse(text) if field is not None}


def test_they_are_run_in_the_order_of_their_numbers() -> None:
    numbers = [int("".join(filter(str.isdecimal, name.partition("_")[0]))) for name in SUITE.module_names()]
    assert numbers == sorted(numbers) and {1, 2, 3, 4, 5, 6, 7, 11} <= set(numbers)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["r1_kills"], ["r1_kills"]),
        (["R5"], ["r5_bad_numbers", "r5_divergence", "r5_memory"]),
        (["5", "r1"], ["r1_kills", "r5_bad_numbers", "r5_divergence", "r5_memory"]),
    ],
)
def test_a_number_names_all_tests_that_have_it(words: list[str], expected: list[str]) -> None:
    assert sorted(SUITE.called(words, argparse.ArgumentParser())) == expected


@pytest.mark.parametrize("module", MODULES, ids=[module.NAME for module in MODULES])
def test_both_languages_tell_the_same_figures(module) -> None:
    for text in (module.DOES, module.FOUND):
        assert text.keys() == {"en", "zh"}
        assert fields(text["en"]) == fields(text["zh"])
    assert callable(module.main)


def test_the_table_holds_the_last_line_of_each_test() -> None:
    machine = {"date": "2026-11-20", "commit": "abc", "processor": "a CPU", "torch": "2.13.0"}
    lines = [
        {"test": "R6", "passed": passed, "steps": steps, "different": 0, "otherwise": 6, **machine}
        for passed, steps in ((False, 1), (True, 140))
    ]
    assert SUITE.table(lines, "en").splitlines()[2:] == [
        "| R6 | the same seed twice, in two processes | 140 steps each; 0 files differ, with another seed 6 do | yes |",
        "",
        "Measured on 2026-11-20, weft abc, a CPU, torch 2.13.0.",
    ]
    assert "各 140 步" in SUITE.table(lines, "zh")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_page_has_a_place_for_the_table(language: str) -> None:
    page = (ROOT / "docs" / language / "reliability.md").read_text(encoding="utf-8")
    assert page.count("<!-- reliability -->\n") == page.count("<!-- end of reliability -->") == 1
