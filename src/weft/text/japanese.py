"""Japanese script other than Han characters."""

KANA = "\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
"""Hiragana and katakana, including half width, as the inside of a character class. ・ and ゠ are signs."""
