"""The limits that a recipe sets on what is measured, and whether they were kept. Does not measure anything."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import Field

from weft.config import Settings


class RequirementsConfig(Settings):
    """`[require]` of a recipe: each limit that is given is checked after an evaluation and decides the exit code.

    A key is `min_` or `max_` and the name of what is measured.
    """

    min_bleu_1: float | None = Field(default=None, ge=0, le=1, description="least BLEU-1 of the courses, from 0 to 1")
    min_bleu_2: float | None = Field(default=None, ge=0, le=1, description="least BLEU-2 of the courses, from 0 to 1")
    min_bleu_3: float | None = Field(default=None, ge=0, le=1, description="least BLEU-3 of the courses, from 0 to 1")
    min_bleu_4: float | None = Field(default=None, ge=0, le=1, description="least BLEU-4 of the courses, from 0 to 1")
    min_exact_match: float | None = Field(
        default=None, ge=0, le=1, description="least share of exact matches, from 0 to 1"
    )
    min_sacrebleu: float | None = Field(default=None, ge=0, le=100, description="least sacreBLEU, from 0 to 100")
    min_chrf: float | None = Field(default=None, ge=0, le=100, description="least chrF, from 0 to 100")
    max_seconds: float | None = Field(default=None, gt=0, description="most seconds to translate the whole set")
    max_parameters: int | None = Field(default=None, ge=1, description="most parameters of the model")


@dataclass(frozen=True)
class RequirementResult:
    """One limit and what was measured against it; what was not measured (None) never passes."""

    name: str
    is_minimum: bool
    required: float
    measured: float | None

    @property
    def passed(self) -> bool:
        """Whether the limit was kept; a measured NaN does not keep any."""
        return self.measured is not None and self._keeps(self.measured)

    @property
    def text(self) -> str:
        """One line: `PASS  bleu_1 0.412 >= 0.395`."""
        verdict, sign = "PASS" if self.passed else "FAIL", ">=" if self.is_minimum else "<="
        return f"{verdict}  {self.name} {self._measured_text()} {sign} {self.required:,}"

    def _measured_text(self) -> str:
        """With as few decimals as agree with the verdict, so that 0.39496 does not fail as `0.395 >= 0.395`."""
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
    """Holds what was measured, by name, against every limit that the recipe gives, in the order of the keys above."""
    results = []
    for key, required in config.model_dump(exclude_none=True).items():
        direction, _, name = key.partition("_")
        results.append(RequirementResult(name, direction == "min", required, measured.get(name)))
    return results
