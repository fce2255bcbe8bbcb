"""The kinds of network for translation, by the `kind` of their [model] table."""

from weft.models.contract import Seq2Seq
from weft.models.transformer import Transformer, TransformerConfig

Seq2SeqSettings = TransformerConfig
"""What the [model] table of a translation recipe may be: a union over all kinds, discriminated by `kind`."""

SEQ2SEQ: dict[str, type[Seq2Seq]] = {"transformer": Transformer}
