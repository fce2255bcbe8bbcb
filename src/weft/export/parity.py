"""Compares an exported model with the model: both translate the same sentences, and the texts are compared."""

from collections.abc import Sequence
from dataclasses import dataclass

from weft.decoding.search import DecodingConfig
from weft.metrics.translation import sacre_bleu
from weft.translating.translation import Translation
from weft.translating.translator import Translator

METHODS = {
    "greedy": DecodingConfig(method="greedy"),
    "beam of 3": DecodingConfig(method="beam", beam_size=3, length_penalty="fixed", stopping="first-k"),
}
"""Searches that every engine can do."""


@dataclass(frozen=True)
class Agreement:
    """The translations of the same sentences by two translators with one search."""

    method: str
    native: list[Translation]
    exported: list[Translation]
    bleu: tuple[float, float] | None = None
    """sacreBLEU of both, where there were references."""

    @property
    def differing(self) -> list[tuple[Translation, Translation]]:
        pairs = zip(self.native, self.exported, strict=True)
        return [(ours, theirs) for ours, theirs in pairs if ours.text != theirs.text]

    @property
    def share(self) -> float:
        """The share of sentences with identical texts."""
        return 1 - len(self.differing) / len(self.native)

    def summary(self) -> str:
        same = len(self.native) - len(self.differing)
        scores = "" if self.bleu is None else f"; sacreBLEU {self.bleu[0]:.2f} and {self.bleu[1]:.2f}"
        return f"{self.method}: {same:,} of {len(self.native):,} texts are the same ({100 * self.share:.1f} %){scores}"


def compare(
    native: Translator, exported: Translator, sources: Sequence[str], references: Sequence[Sequence[str]] = ()
) -> list[Agreement]:
    """Translate all sources with both, by each of METHODS, with the lengths that the recipe allows.

    `references` are lists of one sentence for each source; without them nothing is scored.
    """
    recipe = native.model.recipe
    lengths = {key: getattr(recipe.decoding, key) for key in ("max_length_ratio", "max_length_extra", "max_length")}
    found = []
    for name, method in METHODS.items():
        settings = {**dict(method), **lengths}
        ours, theirs = (translator.translate(sources, **settings) for translator in (native, exported))
        bleu = None
        if references:
            ours_bleu, theirs_bleu = (
                sacre_bleu([t.text for t in side], [list(column) for column in references], recipe.data.target).value
                for side in (ours, theirs)
            )
            bleu = ours_bleu, theirs_bleu
        found.append(Agreement(name, ours, theirs, bleu))
    return found
