"""The special ids that every tokenizer of weft has."""

PADDING_ID, UNKNOWN_ID, BEGIN_ID, END_ID = range(4)
SPECIAL_PIECES = ("<pad>", "<unk>", "<s>", "</s>")
