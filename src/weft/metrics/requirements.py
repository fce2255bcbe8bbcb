"""The limits that a recipe sets on measured values, and whether they were met."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import Field

from weft.config import Settings


class RequirementsConfig(Settings):
    """`[require]` of a recipe: each limit is checked after an evaluation and decides the exit code.

    A key is `min_` or `max_` followed by the name of the value.
    """

    min_bleu_1: float | None = Field(default=None, ge=0, le=1, description="minimum BLEU-1 of the courses, from 0 to 1")
    min_bleu_2: float | None = Field(default=None, ge=0, le=1, description="minimum BLEU-2 of the courses, from 0 to 1")
    min_bleu_3: float | None = Field(default=None, ge=0, le=1, description="minimum BLEU-3 of the courses, from 0 to 1")
    min_bleu_4: float | None = Field(default=None, ge=0, le=1, description="minimum BLEU-4 of the courses, from 0 to 1")
    min_exact_match: float | None = Field(
        default=None, ge=0, le=1, description="minimum share of exact matches, from 0 to 1"
    )
    min_sacrebleu: float | None = Field(default=None, ge=0, le=100, description="minimum sacreBLEU, from 0 to 100")
    min_chrf: float | None = Field(default=None, ge=0, le=100, description="minimum chrF, from 0 to 100")
    max_seconds: float | None = Field(default=None, gt=0, description="maximum seconds to translate the whole set")
    max_parameters: int | None = Field(default=None, ge=1, description="maximum number of parameters of the model")


@dataclass(frozen=True)
class RequirementResult:
    """One limit and the measured value; a value that was not measured (None) never passes."""

    name: str
    is_minimum: bool
    required: float
    measured: float | None

    @property
    def passed(self) -> bool:
        """Whether the limit was met; NaN never meets one."""
        return self.measured is not None and self._keeps(self.measured)

    @property
    def text(self) -> str:
        """One line: `PASS  bleu_1 0.412 >= 0.395`."""
        verdict, sign = "PASS" if self.passed else "FAIL", ">=" if self.is_minimum else "<="
        return f"{verdict}  {self.name} {self._measured_text()} {sign} {self.required:,}"

    def _measured_text(self) -> str:
        """The value with enough decimals for the verdict, so that 0.39496 does not fail as `0.395 >= 0.395`."""
        if self.measured is None:
            return "was not measured; needed"
        for decimals in range(_DECIMALS.get(self.name, 3), 17):
            text = f"{self.measured:,.{decimals}f}"
            if self._keeps(float(text.replace(",", ""))) == self.passed:
                return text
        return repr(self.measured)

    def _keeps(self, value: float) -> bool:
        return value >= self.required if self.is_minimum else value <= self.required


_DECIMALS = {"sacrebleu": 2, "chrf": 2, "seconds": 1, "parameters": 0}


def check_requirements(config: RequirementsConfig, measured: Mapping[str, float]) -> list[RequirementResult]:
    """Compare measured values, by name, with every limit in the recipe, in the order of the keys above."""
    results = []
    for key, required in config.model_dump(exclude_none=True).items():
        direction, _, name = key.partition("_")
        results.append(RequirementResult(name, direction == "min", required, measured.get(name)))
    return results
