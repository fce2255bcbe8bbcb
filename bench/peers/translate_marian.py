"""Times generate of Hugging Face transformers: see stopwatch.py. MODEL is not looked at.

A Marian model of the comparison's size with random weights writes FORCED_LENGTH tokens a sentence. Ids come in and ids
go out, so no time goes into text.
"""

import torch
import transformers  # pyright: ignore[reportMissingImports]
from stopwatch import FORCED_LENGTH, Sentence, in_batches, measure, read_order

order = read_order()
torch.set_num_threads(order.threads)
torch.manual_seed(1)
transformers.logging.set_verbosity_error()
model = transformers.MarianMTModel(
    transformers.MarianConfig(
        vocab_size=8000,
        d_model=256,
        encoder_layers=4,
        decoder_layers=4,
        encoder_attention_heads=8,
        decoder_attention_heads=8,
        encoder_ffn_dim=1024,
        decoder_ffn_dim=1024,
        activation_function="relu",
        max_position_embeddings=1024,
        pad_token_id=0,
        eos_token_id=3,
        decoder_start_token_id=0,
        forced_eos_token_id=None,
    )
).eval()
if order.precision == "bf16":
    model = model.to(torch.bfloat16)


@torch.inference_mode()
def translate(sentences: list[Sentence], beam: int) -> list[tuple[str, int]]:
    answers: list[tuple[str, int]] = [("", 0)] * len(sentences)
    for places in in_batches(sentences, 64):
        longest = max(len(sentences[place]["ids"]) + 1 for place in places)
        ids = [[*sentences[place]["ids"], 3] for place in places]
        padded = torch.tensor([[*row, *[0] * (longest - len(row))] for row in ids])
        written = model.generate(
            input_ids=padded,
            attention_mask=(padded != 0).long(),
            num_beams=beam,
            do_sample=False,
            min_new_tokens=FORCED_LENGTH,
            max_new_tokens=FORCED_LENGTH,
        )
        assert written.shape == (len(places), FORCED_LENGTH + 1)  # behind the token that begins
        for place in places:
            answers[place] = ("", FORCED_LENGTH)
    return answers


measure(translate, order, version=transformers.__version__)
