"""The metrics of every task. They are in a module of their own so that reports do not import torch."""

from collections.abc import Mapping, Sequence

from weft.training.metric import Metric

METRICS: Mapping[str, Sequence[Metric]] = {
    "translation": (
        Metric("bleu", "max", "BLEU", ".2f", 100.0),
        Metric("accuracy", "max", "accuracy", ".4f", 1.0),
        Metric("loss", "min", "loss", ".4f"),
        Metric("chrf", "max", "chrF", ".2f", 100.0),
        Metric("ter", "min", "TER", ".2f"),
        Metric("exact_match", "max", "exact match", ".4f", 1.0),
        *(Metric(f"bleu_{n}", "max", f"BLEU-{n}", ".4f", 1.0) for n in range(1, 5)),
    ),
    "language-model": (
        Metric("loss", "min", "loss", ".4f"),
        Metric("perplexity", "min", "perplexity", ".2f"),
        Metric("bits_per_character", "min", "bits a character", ".4f"),
        Metric("word_perplexity", "min", "perplexity a word", ".2f"),
    ),
    "knowledge": (Metric("exact_match", "max", "exact match", ".4f"), Metric("loss", "min", "loss", ".4f")),
}
"""Task -> the metrics that validations may measure. The first chooses the best weights by default."""

HEADLINES: Mapping[str, Metric] = {
    "translation": Metric("sacrebleu", "max", "sacreBLEU", ".2f"),
    "language-model": Metric("perplexity", "min", "perplexity", ".2f"),
    "knowledge": Metric("exact_match", "max", "exact match", ".4f"),
}
"""Task -> the evaluation score that a report shows first."""
