"""Makes fixtures/joeynmt-* with JoeyNMT: tiny runs, their weights shaken, and what they answer.

    python tests/importing/make_joeynmt.py    in an environment with joeynmt 2.3 and sentencepiece 0.2.0

Each folder is what a training leaves, but for the optimizer's state, for the logs and for most of the tables of
positions, which would take 640 KB (5,000 rows of which 32 are kept). best.ckpt is a link, so the tests make it.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import sentencepiece
import torch
import yaml  # pyright: ignore[reportMissingModuleSource]
from joeynmt.config import load_config, parse_global_args  # pyright: ignore[reportMissingImports]
from joeynmt.prediction import prepare  # pyright: ignore[reportMissingImports]
from joeynmt.search import greedy  # pyright: ignore[reportMissingImports]

sys.path.insert(0, str(Path(__file__).parent))
from corpus import PAIRS, TEXTS, trained_pieces

HERE = Path(__file__).parent / "fixtures"
STEPS = 300
POSITIONS = 32
LOGITS = 3
"""Sentences whose logits are kept."""
MAX_LENGTH = 25
"""Of a greedy translation, </s> counted."""


def main() -> None:
    make("joeynmt-pre", norm="pre", is_joint=False, scale=True)
    make("joeynmt-post", norm="post", is_joint=True, scale=False)


def make(name: str, *, norm: str, is_joint: bool, scale: bool) -> None:
    with tempfile.TemporaryDirectory() as made:
        work = Path(made)
        for part, pairs in (("train", PAIRS), ("valid", PAIRS[::5])):
            for language, column in (("zh", 0), ("en", 1)):
                (work / f"{part}.{language}").write_text(
                    "".join(f"{pair[column]}\n" for pair in pairs), encoding="utf-8"
                )
        for language, columns in (("both", (0, 1)),) if is_joint else (("zh", (0,)), ("en", (1,))):
            model = trained_pieces(
                [pair[column] for column in columns for pair in PAIRS],
                model_type="unigram" if is_joint else "bpe",
                vocab_size=70 if is_joint else 48,
                normalization_rule_name="identity",  # any other takes 240 KB
            )
            (work / f"sp.{language}.model").write_bytes(model)
        config = settings(work, norm=norm, is_joint=is_joint, scale=scale)
        (work / "config.yaml").write_text(yaml.safe_dump(config, allow_unicode=True), encoding="utf-8")
        subprocess.run(
            [sys.executable, "-m", "joeynmt", "train", str(work / "config.yaml"), "--skip-test"],
            cwd=work,
            check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},  # so small a model waits for threads more than it computes
        )
        keep(work / "run", HERE / name)
        ask(work, HERE / name)


def settings(work: Path, *, norm: str, is_joint: bool, scale: bool) -> dict:
    def side(language: str) -> dict:
        model = work / f"sp.{'both' if is_joint else language}.model"
        return {
            "lang": language,
            "level": "bpe",
            "tokenizer_type": "sentencepiece",
            "tokenizer_cfg": {"model_file": str(model)},
            "voc_limit": 1000,
            "voc_min_freq": 1,
            **({"voc_file": str(joint_vocabulary(work))} if is_joint else {}),
        }

    def stack(layers: int) -> dict:
        return {
            "type": "transformer",
            "num_layers": layers,
            "num_heads": 2,
            "embeddings": {"embedding_dim": 16, "scale": scale},
            "hidden_size": 16,
            "ff_size": 24,
            "dropout": 0.1,
            "layer_norm": norm,
            "activation": "relu" if is_joint else "gelu",
        }

    return {
        "name": "tiny",
        "joeynmt_version": "2.3.0",
        "model_dir": str(work / "run"),
        "use_cuda": False,
        "data": {
            "train": str(work / "train"),
            "dev": str(work / "valid"),
            "dataset_type": "plain",
            "src": side("zh"),
            "trg": side("en"),
            "special_symbols": {"unk_token": "<unk>", "unk_id": 0, "pad_token": "<pad>", "pad_id": 1}
            | {"bos_token": "<s>", "bos_id": 2, "eos_token": "</s>", "eos_id": 3},
        },
        "testing": {"beam_size": 3, "beam_alpha": 1.0, "max_output_length": MAX_LENGTH},
        "training": {
            "optimizer": "adamw",
            "learning_rate": 0.005,
            "learning_rate_min": 0.0001,
            "scheduling": "warmupinversesquareroot",
            "learning_rate_warmup": 20,
            "batch_size": 36,
            "batch_type": "sentence",
            "updates": STEPS,
            "epochs": 1000,
            "validation_freq": STEPS,
            "logging_freq": 50,
            "early_stopping_metric": "loss",
            "overwrite": True,
        },
        "model": {
            "tied_embeddings": is_joint,
            "tied_softmax": True,
            "encoder": stack(1 if is_joint else 2),
            "decoder": stack(1),
        },
    }


def joint_vocabulary(work: Path) -> Path:
    """All pieces that either language is cut into, but for some, so that there are pieces that it does not have."""
    cut = sentencepiece.SentencePieceProcessor(model_file=str(work / "sp.both.model"))
    pieces = dict.fromkeys(piece for pair in PAIRS for text in pair for piece in cut.encode(text, out_type=str))
    path = work / "both.txt"
    path.write_text("".join(f"{piece}\n" for piece in list(pieces)[:-4]), encoding="utf-8")
    return path


def keep(run: Path, folder: Path) -> None:
    """The run's files for the repository, with every number shaken, so that none can be forgotten unseen."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    checkpoint = torch.load(run / f"{STEPS}.ckpt", weights_only=True)
    state = checkpoint["model_state"]
    torch.manual_seed(1)
    shaken: dict[int, torch.Tensor] = {}  # by where the numbers lie: tied matrices stay tied
    for name, tensor in state.items():
        if name.endswith("pe.pe"):
            continue
        if tensor.data_ptr() not in shaken:
            tensor.add_(torch.randn_like(tensor) * 0.05)
            shaken[tensor.data_ptr()] = tensor
    torch.save(checkpoint, run / f"{STEPS}.ckpt")
    for name in ("encoder.pe.pe", "decoder.pe.pe"):
        state[name] = state[name][:, :POSITIONS].clone()
    checkpoint["optimizer_state"] = {}
    torch.save(checkpoint, folder / f"{STEPS}.ckpt")
    config = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
    for side in ("src", "trg"):  # as it is where a run was copied from
        config["data"][side].pop("voc_file", None)
        model = config["data"][side]["tokenizer_cfg"]["model_file"] = Path(
            config["data"][side]["tokenizer_cfg"]["model_file"]
        ).name
        shutil.copy(run / model, folder)
    config["model_dir"] = "run"
    config["data"]["train"], config["data"]["dev"] = "train", "valid"
    (folder / "config.yaml").write_text(yaml.safe_dump(config, allow_unicode=True), encoding="utf-8")
    for name in ("src_vocab.txt", "trg_vocab.txt"):
        shutil.copy(run / name, folder)


def ask(work: Path, folder: Path) -> None:
    config = load_config(work / "run" / "config.yaml")
    args = parse_global_args(config, rank=0, mode="translate")
    model, _, _, data = prepare(args, rank=0, mode="translate")
    model.eval()
    vocabularies = {
        "source": (model.src_vocab, data.tokenizer["zh"]),
        "target": (model.trg_vocab, data.tokenizer["en"]),
    }
    ids = {
        side: [[vocabulary.lookup(piece) for piece in tokenizer(text)] for text in TEXTS[side]]
        for side, (vocabulary, tokenizer) in vocabularies.items()
    }
    logits, answers = {}, []
    with torch.no_grad():
        for number, given in enumerate(each for each in ids["source"] if each):
            source = torch.tensor([[*given, model.eos_index]])
            mask = torch.ones(1, 1, source.size(1), dtype=torch.bool)
            encoded, hidden, _, _ = model(
                return_type="encode", src=source, src_length=torch.tensor([source.size(1)]), src_mask=mask
            )
            output, _, _ = greedy(
                src_mask=mask, max_output_length=MAX_LENGTH, model=model, encoder_output=encoded, encoder_hidden=hidden
            )
            answer = output[0].tolist()
            target = torch.tensor([[model.bos_index, *answer]])
            out, _, _, _ = model(
                return_type="decode",
                trg_input=target,
                encoder_output=encoded,
                encoder_hidden=None,
                src_mask=mask,
                unroll_steps=None,
                decoder_hidden=None,
                trg_mask=torch.ones(1, 1, target.size(1), dtype=torch.bool),
            )
            answers.append({"source": source[0].tolist(), "target": answer})
            if number < LOGITS:
                logits[str(number)] = out[0].numpy()
    np.savez_compressed(HERE / f"{folder.name}-oracle.npz", **logits)
    oracle = {"texts": TEXTS, "ids": ids, "greedy": answers}
    (HERE / f"{folder.name}-oracle.json").write_text(
        json.dumps(oracle, ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
