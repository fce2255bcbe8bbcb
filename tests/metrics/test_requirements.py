"""Limits of a recipe: what passes, what does not, and the line that says so."""

import pytest
from pydantic import ValidationError

from weft.metrics.requirements import RequirementsConfig, check_requirements


def only(config: dict[str, float], measured: dict[str, float]):
    (result,) = check_requirements(RequirementsConfig.model_validate(config), measured)
    return result


@pytest.mark.parametrize(
    ("config", "measured", "text"),
    [
        ({"min_bleu_1": 0.395}, {"bleu_1": 0.412}, "PASS  bleu_1 0.412 >= 0.395"),
        ({"min_bleu_2": 0.28}, {"bleu_2": 0.25}, "FAIL  bleu_2 0.250 >= 0.28"),
        ({"min_sacrebleu": 23}, {"sacrebleu": 23.612}, "PASS  sacrebleu 23.61 >= 23.0"),
        ({"max_seconds": 60}, {"seconds": 61.25}, "FAIL  seconds 61.2 <= 60.0"),
        ({"max_parameters": 12_000_000}, {"parameters": 11_543_040}, "PASS  parameters 11,543,040 <= 12,000,000"),
    ],
)
def test_each_limit_gives_one_line(config, measured, text):
    assert only(config, measured).text == text


@pytest.mark.parametrize(
    ("config", "name"),
    [({"min_chrf": 40}, "chrf"), ({"max_seconds": 40}, "seconds"), ({"min_exact_match": 1}, "exact_match")],
)
def test_a_limit_that_is_just_reached_is_kept(config, name):
    (required,) = config.values()
    assert only(config, {name: required}).passed


def test_rounding_never_contradicts_the_verdict():
    assert only({"min_bleu_1": 0.395}, {"bleu_1": 0.39496}).text == "FAIL  bleu_1 0.39496 >= 0.395"
    assert only({"max_seconds": 60}, {"seconds": 60.004}).text == "FAIL  seconds 60.004 <= 60.0"


def test_what_was_not_measured_does_not_pass():
    result = only({"min_chrf": 40}, {"bleu_1": 0.5})
    assert not result.passed
    assert result.text == "FAIL  chrf was not measured; needed >= 40.0"


def test_not_a_number_does_not_pass():
    assert only({"max_seconds": 60}, {"seconds": float("nan")}).text == "FAIL  seconds nan <= 60.0"


def test_only_the_limits_that_are_given_are_checked():
    config = RequirementsConfig(max_seconds=60, min_bleu_2=0.2)
    measured = {"bleu_1": 0.1, "bleu_2": 0.3, "seconds": 10.0}
    assert [result.name for result in check_requirements(config, measured)] == ["bleu_2", "seconds"]
    assert check_requirements(RequirementsConfig(), measured) == []


@pytest.mark.parametrize(
    "config",
    [
        {"min_bleu_1": 39.5},
        {"min_bleu_1": True},
        {"min_bleu_1": "0.4"},
        {"min_chrf": float("nan")},
        {"min_sacrebleu": 101},
        {"max_seconds": 0},
        {"max_parameters": 1.5},
        {"max_bleu_1": 0.5},
    ],
)
def test_a_limit_outside_its_scale_is_refused(config):
    with pytest.raises(ValidationError):
        RequirementsConfig.model_validate(config)


def test_every_key_is_explained():
    assert all(field.description for field in RequirementsConfig.model_fields.values())
