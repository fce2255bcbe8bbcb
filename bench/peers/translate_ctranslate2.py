"""Times CTranslate2 on weft's weights: see stopwatch.py. MODEL is what `weft export` wrote, PRECISION its number type.

The library is called as its own documentation does it, with SentencePiece on both sides and no line of weft between. It
sorts by length and makes batches of 2,048 tokens itself, by all threads for one batch or by one thread for each,
whichever is quicker (PRECISION "fp32" or "fp32 x 2").
"""

import ctranslate2
import sentencepiece
from stopwatch import Sentence, measure, read_order

order = read_order()
precision, _, workers = order.precision.partition(" x ")
translator = ctranslate2.Translator(
    str(order.model),
    device="cpu",
    compute_type={"fp32": "float32", "int8": "int8"}[precision],
    inter_threads=int(workers or 1),
    intra_threads=order.threads // int(workers or 1),
)
target = sentencepiece.SentencePieceProcessor(model_file=str(order.model / "tokenizer.target.model"))
source = sentencepiece.SentencePieceProcessor(model_file=str(order.model / "tokenizer.source.model"))


def translate(sentences: list[Sentence], beam: int) -> list[tuple[str, int]]:
    pieces = [source.encode(sentence["normalized"], out_type=str) for sentence in sentences]
    found = translator.translate_batch(
        pieces,
        beam_size=beam,
        length_penalty=1.0,
        max_batch_size=2048,
        batch_type="tokens",
        max_input_length=0,
        min_decoding_length=0,
        max_decoding_length=256,
    )
    return [(target.decode(one.hypotheses[0]), len(one.hypotheses[0]) + 1) for one in found]


measure(translate, order, version=ctranslate2.__version__)
