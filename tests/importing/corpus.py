"""Sentence pairs for the tiny models of make_marian.py and make_joeynmt.py, and texts that their tokenizers are asked
about. Needs nothing but sentencepiece, since both run where weft is not."""

import io
from collections.abc import Iterable
from typing import Any

import sentencepiece

SUBJECTS = {"我": "I", "她": "She", "他们": "They"}
VERBS = {"有": "has", "看见": "sees", "想要": "wants"}
NUMBERS = {"一个": "one", "两个": "two", "三个": "three", "十个": "ten"}
NOUNS = {"苹果": "apple", "杯子": "cup", "朋友": "friend", "问题": "question"}
PAIRS = [
    (f"{subject}{verb}{number}{noun}。", f"{SUBJECTS[subject]} {VERBS[verb]} {NUMBERS[number]} {NOUNS[noun]}s.")
    for subject in SUBJECTS
    for verb in VERBS
    for number in NUMBERS
    for noun in NOUNS
]
TEXTS = {
    "source": ["我有三个苹果。", "十个朋友", "我想要apple。", "她看见龘龘了", "", "I see 三 cups?", "我 ，我有"],
    "target": ["I sees three apples.", "ten friends", "Zebra!", "我有 one cup.", "", "see 龘 ques", "I  want"],
}
"""Among them what neither model has seen, and words of the other language."""


def trained_pieces(texts: Iterable[str], **settings: Any) -> bytes:
    """A SentencePiece model of these texts. It is written into memory: a file would keep the path of this machine."""
    writer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=writer,
        **{"vocab_size": 55, "hard_vocab_limit": False, "minloglevel": 2, **settings},
    )
    return writer.getvalue()
