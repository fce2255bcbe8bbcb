"""What can be wrong with a run: symptoms with their cost and remedy, the thresholds by which they are found, and the
result of a diagnosis.

The thresholds were chosen on runs of some seeds with a planted fault, and confirmed on others (bench/diagnosing.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from weft.errors import counted
from weft.figures.table import wrapped

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Symptom:
    title: str
    severity: Severity
    cost: str
    remedy: str


SYMPTOMS: dict[str, Symptom] = {
    # Faults of the code
    "not finite": Symptom(
        "the output of the network is not finite",
        "error",
        "whatever it predicts is arbitrary, and no update can mend it",
        "go on from an older checkpoint with a lower training.learning_rate",
    ),
    "future seen": Symptom(
        "predictions depend on later target tokens",
        "error",
        "losses and accuracy look very good, and translations are useless: a search has no later tokens to look at",
        "correct the mask of the decoder's self-attention, or the operation that mixes places, such as a reshape",
    ),
    "padding read": Symptom(
        "predictions depend on padding",
        "error",
        "a translation depends on the other sentences of its batch, and the model trains on padding",
        "correct the mask of padding in attention to the source, or the lengths that a recurrent encoder is given",
    ),
    "source cut off": Symptom(
        "predictions do not change at all with the source",
        "error",
        "the model is a language model: it writes fluent sentences that translate nothing",
        "look for an encoder that the decoder does not read: a mask that hides all of it, or a state passed on wrongly",
    ),
    "off by one": Symptom(
        "the network predicts a neighbor of the token that it is asked for",
        "error",
        "the loss falls as usual, and translations repeat or skip words",
        "compare the targets that are read and the targets that are predicted: they are one place apart",
    ),
    # Faults of the data
    "strangers": Symptom(
        "the sources and targets of training do not belong together",
        "error",
        "the model cannot learn to translate: it learns the target language alone",
        "pair the files again: the two sides were sorted or shuffled apart; `weft doctor` shows examples",
    ),
    "out of step": Symptom(
        "the targets of training are shifted against their sources",
        "error",
        "the model learns from wrong pairs, and learns the target language alone",
        "shift one side by the given number of lines; `weft doctor` names the blocks",
    ),
    "leak": Symptom(
        "validation pairs occur in training",
        "error",
        "scores are too high and choose the weights that know the most by heart",
        "remove them from training, as [cleaning] does, or hold out other pairs",
    ),
    "other case": Symptom(
        "training and validation differ in lower and upper case",
        "error",
        "words whose case differs from training are split into rare pieces and count as errors",
        "write both in the same case, best in the usual one",
    ),
    # Settings
    "rate too high": Symptom(
        "the weights move too far in each update",
        "error",
        "part of what is learned is lost again: the loss falls slowly, stays at the level of word frequencies or jumps",
        "lower training.learning_rate",
    ),
    "no warm-up": Symptom(
        "post-normalization is trained without a warm-up",
        "error",
        "the first updates break deep networks: the loss stays at the level of word frequencies",
        'set training.warmup, or model.norm = "pre"',
    ),
    "smoothing": Symptom(
        "label smoothing outweighs the labels",
        "warning",
        "the model is taught that every piece is nearly as good as the right one",
        "lower training.label_smoothing; 0.1 is usual",
    ),
    "tiny batch": Symptom(
        "updates are made from very few tokens",
        "warning",
        "gradients are mostly noise, and an epoch takes many times as long",
        "raise the size of the batch, or training.accumulate",
    ),
    "vocabulary": Symptom(
        "the vocabulary is too large for the corpus",
        "warning",
        "half of the pieces are too rare to be learned, and their matrices are the larger part of the model",
        "use fewer pieces; a translation recipe without sizes gets those that suit its corpus",
    ),
    "by heart": Symptom(
        "the training pairs are learned by heart, without dropout",
        "warning",
        "the model knows the answers of training and guesses those of new sentences",
        "set model.dropout; train fewer epochs; get more pairs",
    ),
    # Consequences of some cause
    "nothing learned": Symptom(
        "one batch cannot be learned by heart",
        "warning",
        "a sound network knows a few sentences after some dozen updates; this one cannot learn",
        "run `weft check-gradients` on the run; look for frozen or broken weights, and for a rate that ruined them",
    ),
    "source unread": Symptom(
        "the right source helps no more than another one",
        "warning",
        "the model is a language model so far: it writes fluent sentences that translate nothing",
        "check the pairs with `weft doctor`; train longer; lower the rate",
    ),
    "frequencies alone": Symptom(
        "the model knows no more than how frequent each piece is",
        "warning",
        "training has not begun to work, and more of it hardly helps",
        "lower training.learning_rate, or make the warm-up longer",
    ),
    "worse": Symptom(
        "loss and accuracy on the validation data have both become worse",
        "warning",
        "the best weights were long ago; what is trained since is thrown away",
        "raise model.dropout, or stop earlier with training.patience",
    ),
    "clipped": Symptom(
        "nearly every gradient is clipped",
        "note",
        "the size of an update no longer depends on its gradient; usual at the beginning of training",
        "raise training.clip_norm, or lower the rate, if the loss is unsteady",
    ),
    "padding": Symptom(
        "a large part of the batches is padding",
        "note",
        "as much of the time is spent on nothing",
        "use training.batch_tokens in place of batch_sentences, or a larger batch",
    ),
}
"""Causes before their consequences: in this order they are reported, whatever their severity."""

# Thresholds
ROUNDING = 1e-3
"""Change of a log-probability that rounding explains, in nats."""
LEAST_TOKENS = 40_000
"""Target tokens from which on a sound run knows more than frequencies."""
TOKENS_TO_READ_A_SOURCE = 1_000_000
"""Target tokens from which on a sound run reads the source."""
FREQUENCIES = 0.25
"""Nats by which a training loss is below the unigram entropy when a run has learned more than frequencies."""
KEPT = 1.0
"""Nats by which a training loss is below the unigram entropy when a run keeps what it learns although its
update ratio is between the next two."""
UPDATE_RATIO, RUINOUS_RATIO = 0.02, 0.03
"""Shares of the weights' norm by which the largest tenth of the logged updates changes them. Sound runs had at most
0.014, and at thirty times the rate it was 0.031 to 0.039. At 0.022 and 0.028 runs of recipes/sick still had a lower
training loss than the sound one."""
SHORT_WARMUP = 0.01
"""Share of all steps, or of the steps made."""
SMOOTHING = 0.3
FEW_TOKENS = 128
"""Target tokens an update."""
RARE = 5
"""A piece that occurs less often in training is rare."""
RARE_SHARE = 0.5
LEAK_SHARE = 0.2
"""Share of the validation pairs."""
SAME_CASE = 4.0
"""Factor between the shares of capitals."""
CAPITALS = 0.01
"""Share of capitals in the cased one of two texts."""
STRANGERS = 0.65
OUT_OF_STEP = 0.2
BY_HEART = 0.4
"""Training loss, without dropout, as a share of the validation loss."""
LEAST_DROPOUT = 0.05
NOTHING_LEARNED = 0.8
"""Share of its loss that a batch keeps after a copy was trained on it alone."""
WORSE_LOSS, WORSE_ACCURACY = 0.1, 0.01
CLIPPED, PADDED = 0.95, 0.5


@dataclass(frozen=True)
class Finding:
    """A symptom that a run has."""

    kind: str
    evidence: str
    command: str
    """Tries the remedy for two minutes."""

    @property
    def symptom(self) -> Symptom:
        return SYMPTOMS[self.kind]


@dataclass(frozen=True)
class Checkup:
    """The result of diagnosing a run."""

    run: str
    step: int
    findings: Sequence[Finding]
    figures: Mapping[str, float | None]
    """What was measured, by name."""
    not_made: Mapping[str, str]
    """Check -> why it could not be made."""
    seconds: float

    @property
    def is_healthy(self) -> bool:
        return all(finding.symptom.severity == "note" for finding in self.findings)

    def table(self) -> str:
        """Format for a terminal."""
        found = [finding.symptom.severity for finding in self.findings]
        counts = ", ".join(counted(found.count(severity), severity) for severity in ("error", "warning", "note"))
        lines = [f"{self.run}, step {self.step:,}: {counts}"]
        for finding in self.findings:
            symptom = finding.symptom
            lines += ["", wrapped(f"{symptom.severity:<8}{finding.kind}: {symptom.title}", hang=8)]
            parts = {"evidence": finding.evidence, "cost": symptom.cost, "remedy": symptom.remedy}
            lines += [wrapped(f"    {name:<9} {text}", hang=14) for name, text in parts.items()]
            lines += [f"    try it    {finding.command}"]  # in one line, to be copied
        measured = [f"    {name:<44} {value:>12.4g}" for name, value in self.figures.items() if value is not None]
        if measured:
            lines += ["", "measured", *measured]
        if self.not_made:
            lines += ["", "not checked"]
            lines += [wrapped(f"    {check}: {reason}", hang=8) for check, reason in self.not_made.items()]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "run": self.run,
            "step": self.step,
            "healthy": self.is_healthy,
            "findings": [
                {"kind": each.kind, **vars(each.symptom), "evidence": each.evidence, "command": each.command}
                for each in self.findings
            ],
            "figures": dict(self.figures),
            "not_made": dict(self.not_made),
            "seconds": round(self.seconds, 1),
        }
