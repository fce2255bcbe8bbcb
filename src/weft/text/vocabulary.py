"""The special ids that every tokenizer of weft has, and how large a vocabulary should be."""

import math

PADDING_ID, UNKNOWN_ID, BEGIN_ID, END_ID = range(4)
SPECIAL_PIECES = ("<pad>", "<unk>", "<s>", "</s>")


def choose_vocabulary_size(pairs: int) -> int:
    """Pieces a side for a corpus of this many pairs: 8,000 at 50,000 pairs, doubled for every ten times more.

    Few sentences cannot teach many rare pieces; Gowda and May (2020, "Finding the Optimal Vocabulary Size") find the
    best size growing slowly with the corpus. Rounded to 500, kept within 1,000 and 32,000.
    """
    size = 8000 * 2 ** math.log10(max(pairs, 1) / 50_000)
    return min(32_000, max(1_000, round(size / 500) * 500))
