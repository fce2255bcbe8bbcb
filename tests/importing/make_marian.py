"""Makes fixtures/marian-* with Hugging Face's transformers: tiny Marian models, and what they answer.

    python tests/importing/make_marian.py      in an environment with transformers, torch and sentencepiece

Each folder is what `save_pretrained` leaves. Beside it stands NAME-oracle.npz (logits under teacher forcing) and
NAME-oracle.json (ids and greedy translations).
"""

import json
import shutil
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import sentencepiece
import torch
from transformers import (  # pyright: ignore[reportMissingImports]
    GenerationConfig,
    MarianConfig,
    MarianMTModel,
    MarianTokenizer,
)

sys.path.insert(0, str(Path(__file__).parent))
from corpus import PAIRS, TEXTS, trained_pieces

HERE = Path(__file__).parent / "fixtures"
TAGS = [">>cmn_Hans<<", ">>eng<<"]
STEPS = 400
LOGITS = 3
"""Sentences whose logits are kept."""
MAX_LENGTH = 26
"""Of a greedy translation, the first token and </s> counted."""


def main() -> None:
    make("marian-shared", scale_embedding=True, activation_function="swish", decoder_layers=1)
    apart = {"share_encoder_decoder_embeddings": False, "scale_embedding": False}
    make("marian-apart", activation_function="relu", decoder_layers=1, **apart)


def make(name: str, **changes) -> None:
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    is_shared = changes.get("share_encoder_decoder_embeddings", True)
    for side, column, size in (("source", 0, 60), ("target", 1, 45)):
        texts = [pair[column] for pair in PAIRS]
        model = trained_pieces(texts, vocab_size=size, normalization_rule_name="identity")  # any other takes 240 KB
        (folder / f"{side}.spm").write_bytes(model)
    sizes = write_vocabularies(folder, is_shared)
    tokenizer = MarianTokenizer(
        source_spm=str(folder / "source.spm"),
        target_spm=str(folder / "target.spm"),
        vocab=str(folder / "vocab.json"),
        target_vocab_file=None if is_shared else str(folder / "target_vocab.json"),
        separate_vocabs=not is_shared,
        source_lang="zho",
        target_lang="eng",
    )
    padding = sizes[0] - 1
    config = MarianConfig(
        **{
            "vocab_size": sizes[0],
            "decoder_vocab_size": sizes[1],
            "d_model": 16,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 2,
            "decoder_attention_heads": 2,
            "encoder_ffn_dim": 24,
            "decoder_ffn_dim": 24,
            "max_position_embeddings": 64,
            "pad_token_id": padding,
            "eos_token_id": 0,
            "forced_eos_token_id": 0,
            "decoder_start_token_id": padding,
            **changes,
        }
    )
    torch.set_num_threads(1)  # so small a model waits for threads more than it computes
    torch.manual_seed(1)
    model = MarianMTModel(config).eval()
    learn(model, tokenizer)
    model.generation_config = GenerationConfig(
        num_beams=1,
        max_length=MAX_LENGTH,
        bad_words_ids=[[padding]],
        pad_token_id=padding,
        eos_token_id=0,
        forced_eos_token_id=0,
        decoder_start_token_id=padding,
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if not is_shared:  # as transformers once wrote it
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
    for leftover in ("special_tokens_map.json", "added_tokens.json"):
        (folder / leftover).unlink(missing_ok=True)
    ask(folder, model, tokenizer, is_shared)


def write_vocabularies(folder: Path, is_shared: bool) -> tuple[int, int]:
    """As Marian counts them: </s> and <unk>, the pieces by frequency, <pad>. The rarest three are left out, so that
    there are pieces that the vocabulary does not have. Tags come before the padding."""
    counts = []
    for side, column in (("source", 0), ("target", 1)):
        cut = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
        counts.append(Counter(piece for pair in PAIRS for piece in cut.encode(pair[column], out_type=str)))
    lists = [[piece for piece, _ in count.most_common()[:-3]] for count in counts]
    assert all("▁" in pieces for pieces in lists)
    if is_shared:
        lists = [list(dict.fromkeys([*lists[0], *lists[1], *TAGS]))]
    for pieces, name in zip(lists, ("vocab.json", "target_vocab.json"), strict=False):
        tokens = ["</s>", "<unk>", *pieces]
        if name == "target_vocab.json":  # one number of <pad> serves both languages
            tokens += [f"filler{number}" for number in range(len(lists[0]) - len(pieces))]
        tokens.append("<pad>")
        (folder / name).write_text(json.dumps({token: number for number, token in enumerate(tokens)}), encoding="utf-8")
    sizes = [
        len(json.loads((folder / name).read_text(encoding="utf-8")))
        for name in ("vocab.json", "target_vocab.json")
        if (folder / name).exists()
    ]
    return sizes[0], sizes[-1]


def learn(model, tokenizer) -> None:
    """Some steps on the pairs, for answers of different lengths; and a bias that no training gives."""
    source = tokenizer([pair[0] for pair in PAIRS], return_tensors="pt", padding=True)
    labels = tokenizer(text_target=[pair[1] for pair in PAIRS], return_tensors="pt", padding=True)["input_ids"]
    labels[labels == tokenizer.pad_token_id] = -100
    with torch.no_grad():
        model.final_logits_bias.normal_(std=0.3)
        for parameter in model.parameters():
            if parameter.dim() == 1:  # norms and biases, so that none can be forgotten unseen
                parameter.add_(torch.randn_like(parameter) * 0.2)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    model.train()
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(**source, labels=labels).loss.backward()
        optimizer.step()
    model.eval()


def ask(folder: Path, model, tokenizer, is_shared: bool) -> None:
    encoded = {"source": [tokenizer(text)["input_ids"] for text in TEXTS["source"]]}
    encoded["target"] = [tokenizer(text_target=text)["input_ids"] for text in TEXTS["target"]]
    sources = [ids for ids in encoded["source"] if len(ids) > 1]
    if is_shared:
        sources.append(tokenizer(f"{TAGS[0]} {TEXTS['source'][0]}")["input_ids"])
    logits, greedy = {}, []
    with torch.no_grad():
        for number, ids in enumerate(sources):
            source = torch.tensor([ids])
            answer = model.generate(source)[0].tolist()
            greedy.append({"source": ids, "target": answer})
            if number < LOGITS:
                logits[str(number)] = (
                    model(input_ids=source, decoder_input_ids=torch.tensor([answer])).logits[0].numpy()
                )
    np.savez_compressed(HERE / f"{folder.name}-oracle.npz", **logits)
    oracle = {"texts": TEXTS, "ids": encoded, "greedy": greedy}
    (HERE / f"{folder.name}-oracle.json").write_text(
        json.dumps(oracle, ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
