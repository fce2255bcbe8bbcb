"""Does a spoiled model ever do more than earn an error? `python -m bench.reliability.fuzz_models`.

Each case spoils one file of a small model, makes the manifest true again (its checksums would answer everything else),
and loads the model; what loads also translates a sentence. A spoiled archive is unpacked. An error of weft's own is
right. Any other exception, a process that dies, a second of computing, memory beyond the limit, or a file left behind
is a failure, printed with the number that repeats it: `--kind weights --first 1234 --cases 1`; the exit code is then 1.
Prints one JSON line for each kind of file.
"""

import argparse
import hashlib
import json
import random
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

LONGEST_CASE = 1.0
"""Seconds of computing; the wall clock of a shared machine says little."""
DEAD_AFTER = 30.0
"""Seconds on the wall clock without an answer after which a worker is killed."""
MOST_MEMORY = 64
"""MiB that the peak of a worker may rise after its first cases, whose imports and caches it holds."""
WARM_UP = 20
IN_INT8 = "int8.safetensors"


def main() -> None:
    parser = argparse.ArgumentParser(description="Spoil the files of a small model and load it, many times.")
    parser.add_argument("--cases", type=int, default=20_000, help="cases with spoiled weights")
    parser.add_argument("--others", type=int, default=2_000, help="cases for each other kind of file")
    parser.add_argument("--kind", choices=list(SPOILERS), help="only this kind of file, in --cases cases")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        return work(Path(given.worker), given.kind, range(given.first, given.first + given.cases), given.seed)
    counts = {kind: given.cases if kind == "weights" else given.others for kind in SPOILERS}
    if given.kind:
        counts = {given.kind: given.cases}
    with tempfile.TemporaryDirectory() as folder:
        make_model(Path(folder))
        rows = [fuzz(Path(folder), kind, given.first, count, given.seed) for kind, count in counts.items()]
    sys.exit(any(row["failures"] for row in rows))


def fuzz(folder: Path, kind: str, first: int, count: int, seed: int) -> dict[str, Any]:
    """Run the cases in workers, a new one after each that died; print and return what came out."""
    outcomes: Counter[str] = Counter()
    failures: list[dict[str, Any]] = []
    slowest, memory, case, end = 0.0, 0.0, first, first + count
    while case < end:
        for answer in answers(folder, kind, case, end - case, seed):
            case = answer["case"] + 1
            slowest = max(slowest, answer["seconds"])
            memory = max(memory, answer["risen"])
            outcomes[answer["outcome"]] += 1
            is_fine = answer["outcome"] in ("refused", "loaded")
            if not is_fine or answer["seconds"] > LONGEST_CASE or answer["risen"] > MOST_MEMORY:
                failures.append(answer)
        if case < end:
            failures.append({"case": case, "outcome": "died or hung"})
            outcomes["died or hung"] += 1
            case += 1
    row = {
        "kind": kind,
        "cases": count,
        **dict(sorted(outcomes.items())),
        "slowest_seconds": round(slowest, 3),
        "memory_risen_mib": round(memory, 1),
        "seed": seed,
        "failures": failures[:20],
    }
    print(json.dumps(row), flush=True)
    return row


def answers(folder: Path, kind: str, first: int, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """What a worker says about each case, until it has done all or is dead."""
    options = ["--kind", kind, "--first", str(first), "--cases", str(count), "--seed", str(seed)]
    command = [sys.executable, __file__, "--worker", str(folder), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        while True:
            watchdog = threading.Timer(DEAD_AFTER, worker.kill)
            watchdog.start()
            line = worker.stdout.readline()
            watchdog.cancel()
            if not line:
                return
            yield json.loads(line)


def work(folder: Path, kind: str, cases: range, seed: int) -> None:
    """One JSON line a case."""
    for answer in attempts(folder, kind, cases, seed):
        print(json.dumps(answer), flush=True)


def attempts(folder: Path, kind: str, cases: range, seed: int) -> Iterator[dict[str, Any]]:
    """Spoil a copy of the model in `folder`, try it, and say how that went, for each case."""
    name, spoil = SPOILERS[kind]
    original = (folder / (IN_INT8 if kind == "weights in int8" else name)).read_bytes()
    manifest = (folder / "manifest.json").read_bytes()
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / "model"
        shutil.copytree(folder, copy)
        assert outcome_of(load_and_translate, copy) == outcome_of(unpack_archive, copy) == "loaded"
        before = 0.0
        for done, case in enumerate(cases):
            (copy / name).write_bytes(spoil(original, random.Random(f"{seed} {kind} {case}")))
            if kind not in ("manifest", "archive"):
                (copy / "manifest.json").write_bytes(sealed(manifest, name, (copy / name).read_bytes()))
            begin = time.process_time()
            outcome = outcome_of(unpack_archive if kind == "archive" else load_and_translate, copy)
            seconds = time.process_time() - begin
            before = peak() if done < WARM_UP else before
            if {path.name for path in Path(place).rglob("*")} != {"model", *(file.name for file in folder.iterdir())}:
                outcome = "something was left behind"
            yield {"case": case, "outcome": outcome, "seconds": round(seconds, 4), "risen": peak() - before}


def load_and_translate(folder: Path) -> None:
    import torch

    from weft.folders.model_folder import load_model
    from weft.translating.translator import Translator

    Translator(load_model(folder), torch.device("cpu")).translate(["我有 an apple"], method="greedy")


def unpack_archive(folder: Path) -> None:
    from weft.folders.archive import unpack

    unpack(folder / "model.zip", folder / "unpacked")
    shutil.rmtree(folder / "unpacked")


def outcome_of(attempt: Callable[[Path], None], folder: Path) -> str:
    """refused, loaded, or the error that is no error of weft's."""
    from weft.errors import WeftError

    try:
        attempt(folder)
    except WeftError as error:
        text = str(error).replace("\n", "")
        if len(text) > 10_000 or any(unicodedata.category(letter)[0] == "C" for letter in text):
            return "an error that floods or upsets a terminal"
        return "refused"
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]
    return "loaded"


def peak() -> float:
    """MiB of this process at its largest so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def make_model(folder: Path) -> None:
    """A model of one layer each with fresh weights and vocabularies of 300 pieces; beside it its archive, and its
    weights in int8."""
    from safetensors.torch import load_file, save_file

    from weft.config import resolve
    from weft.folders.archive import pack
    from weft.folders.kinds import build_seq2seq
    from weft.folders.model_folder import Learned, save_model
    from weft.folders.recipes import TranslationRecipe
    from weft.folders.weight_storage import stored
    from weft.text.sentencepiece_model import train_sentencepiece

    recipe = {
        "data": {"source": "zh", "target": "en", "train": ["train.tsv"], "valid": ["valid.tsv"]},
        "tokenizer": {"source_script": "simplified", "target_script": "keep", "source_size": 300, "target_size": 300},
        "model": {"model_dim": 16, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1, "ff_dim": 16},
        "training": {"precision": "fp32"},
        "decoding": {"max_length_ratio": 1.0, "max_length_extra": 2},
    }
    resolved = resolve(recipe, TranslationRecipe, "a small model")
    sentences = {"zh": ["我有一个苹果。", "两个朋友"], "en": ["I have an apple.", "two friends"]}
    source, target = (
        train_sentencepiece(sentences[language] * 5, kind="bpe", vocab_size=300, language=language)[0]
        for language in ("zh", "en")
    )
    model = build_seq2seq(resolved.recipe, source.vocab_size, target.vocab_size)
    save_model(folder, Learned(resolved, model, {"source": source, "target": target}), "# A card\n")
    pack(folder, folder / "model.zip")
    save_file(stored(load_file(folder / "model.safetensors"), "int8"), folder / IN_INT8)


def sealed(manifest: bytes, name: str, content: bytes) -> bytes:
    """The manifest with this file's digest, as somebody writes it who wants the spoiled file to be read."""
    known = json.loads(manifest)
    known["files"][name] = hashlib.sha256(content).hexdigest()
    return json.dumps(known).encode()


# How each kind of file is spoiled


def spoil_bytes(data: bytes, rng: random.Random) -> bytes:
    """Bytes changed, cut off, put in, left out, repeated or blotted out."""
    begin = rng.randrange(len(data) + 1)
    end = min(len(data), begin + rng.choice([1, 2, 4, 8, 64, 1000]))
    match rng.randrange(6):
        case 0:
            spoiled = bytearray(data)
            for _ in range(rng.choice([1, 1, 2, 8])):
                spoiled[rng.randrange(len(data))] = rng.randrange(256)
            return bytes(spoiled)
        case 1:
            return data[:begin]
        case 2:
            return data[:begin] + rng.randbytes(rng.choice([1, 2, 8, 200])) + data[begin:]
        case 3:
            return data[:begin] + data[end:]
        case 4:
            return data[:end] + data[begin:end] * rng.choice([1, 2, 50]) + data[end:]
        case _:
            return data[:begin] + rng.choice([b"\0", b"\xff", b"\x80"]) * (end - begin) + data[end:]


def spoil_weights(data: bytes, rng: random.Random) -> bytes:
    """Mostly the header, which is what a reader has to trust: 8 bytes of length, then JSON."""
    length = struct.unpack("<Q", data[:8])[0]
    header, tensors = data[8 : 8 + length], data[8 + length :]
    match rng.randrange(10):
        case 0:
            lie = rng.choice(
                [0, 1, length - 1, length + 1, len(data), 2**31, 2**32, 2**63, 2**64 - 1, rng.randrange(2**40)]
            )
            return struct.pack("<Q", lie) + data[8:]
        case 1:
            return data[: rng.randrange(len(data))]
        case 2:
            return rng.choice([b"\x80\x04", b"PK\x03\x04", b"\x93NUMPY", b"GGUF", b"", b"["]) + rng.randbytes(
                rng.randrange(99)
            )
        case 3:
            return spoil_bytes(data, rng)
        case 4 | 5:
            return framed(spoil_bytes(header, rng), tensors)
        case _:
            table = json.loads(header)
            for _ in range(rng.choice([1, 1, 1, 3])):
                spoil_table(table, rng)
            return framed(json.dumps(table).encode(errors="surrogatepass"), tensors)


def framed(header: bytes, tensors: bytes) -> bytes:
    return struct.pack("<Q", len(header)) + header + tensors


def spoil_table(table: dict[str, Any], rng: random.Random) -> None:
    """A tensor taken away, renamed, doubled, or given another type, shape or place."""
    name = rng.choice([key for key in table if isinstance(table[key], dict)] or ["gone"])
    match rng.randrange(6):
        case 0:
            table.pop(name, None)
        case 1:
            table[rng.choice(["", "a.b", "\x1b[31m", "\ud800", "n" * 5000, name + "2"])] = table.pop(name, {})
        case 2:
            table[name] = anything(rng)
        case 3:
            table["__metadata__"] = anything(rng)
        case _:
            if isinstance(entry := table.get(name), dict):
                entry[rng.choice([*entry, "more"])] = rng.choice(
                    [
                        anything(rng),
                        rng.choice(["F64", "BF16", "I8", "BOOL", "F8_E4M3", "F32"]),
                        [rng.choice([0, 1, -1, 16, 300, 2**31, 2**63, 2**64]) for _ in range(rng.randrange(6))],
                        [rng.randrange(99_999), rng.randrange(99_999)],
                    ]
                )


def spoil_json(data: bytes, rng: random.Random) -> bytes:
    """The manifest: other values at some place, or other bytes."""
    if rng.random() < 0.3:
        return spoil_bytes(data, rng)
    manifest = json.loads(data)
    table = rng.choice([manifest, manifest["files"]])
    name = rng.choice(list(table))
    match rng.randrange(4):
        case 0:
            del table[name]
        case 1:
            table[rng.choice(NAMES)] = table.pop(name)
        case 2:
            table[rng.choice(NAMES)] = anything(rng)
        case _:
            table[name] = anything(rng)
    text = json.dumps(manifest)
    return (text if rng.random() < 0.9 else rng.choice(["[", '{"files":']) * 100_000 + text).encode(
        errors="surrogatepass"
    )


def spoil_config(data: bytes, rng: random.Random) -> bytes:
    """Values, keys and lines of the TOML, or its bytes."""
    lines = data.decode().splitlines()
    line = rng.randrange(len(lines))
    key = lines[line].partition(" = ")[0]
    match rng.randrange(6):
        case 0:
            return spoil_bytes(data, rng)
        case 1:
            del lines[line]
        case 2:
            lines.insert(line, rng.choice(LINES))
        case 3:
            lines.insert(rng.randrange(len(lines)), lines[line])
        case _:
            lines[line] = f"{rng.choice([key, key, key, 'unknown', 'a.b', '[x'])} = {rng.choice(VALUES)}"
    return "\n".join(lines).encode()


def spoil_vocabulary(data: bytes, rng: random.Random) -> bytes:
    """The protocol buffer: bytes, and fields put behind the others, which then count."""
    if rng.random() < 0.7:
        return spoil_bytes(data, rng)
    number = rng.choice([1, 2, 3, 4, 5, 99])
    inner = rng.choice(
        [
            rng.randbytes(rng.choice([0, 1, 20, 3000])),
            field(1, b"a" * rng.choice([1, 100, 100_000]))
            + b"\x15"
            + rng.randbytes(4)
            + b"\x18"
            + bytes([rng.randrange(9)]),
            field(2, struct.pack("<I", rng.choice([0, 4, 1024, 2**31])) + rng.randbytes(rng.choice([0, 1024, 1100]))),
            bytes([rng.randrange(1, 128) << 3 & 0xFF, *rng.randbytes(6)]),
        ]
    )
    return data + field(number, inner)


def spoil_archive(data: bytes, rng: random.Random) -> bytes:
    """Mostly the table of contents at the end, which says what there is, how large and where."""
    contents = data.index(b"PK\x01\x02")
    match rng.randrange(4):
        case 0:
            return spoil_bytes(data, rng)
        case 1:
            return spoil_bytes(data[:contents], rng) + data[contents:]
        case _:
            return data[:contents] + spoil_bytes(data[contents:], rng)


def field(number: int, content: bytes) -> bytes:
    """A length-delimited field of a protocol buffer."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def anything(rng: random.Random) -> Any:
    """A value of JSON that nobody expects."""
    return rng.choice(
        [
            *(None, True, 0, 1, -1, 2**63, 10**400, 1e308, float("nan"), "", "x" * 3000, "\x1b[2J", "\ud800"),
            *([], {}, [[]], {"a": {}}),
        ]
    )


NAMES = [
    *("", ".", "..", "../x", "/etc/hostname", "a/b", "C:x", "a\\b", "n" * 300),
    *("\0", "\ud800", "config.toml ", "\x1b[2J"),
]

VALUES = [
    *("-1", "0", "1", "1e9", "1000000000", "9223372036854775808", "-9223372036854775808", "0x" + "f" * 5000, "1e400"),
    *("nan", "inf", "true", '""', '"torch.nn.Linear"', '"os.system"', '"../../x"', '"\\u001b[2J"', '"\\u0000"'),
    *("[]", "[1]", "[[]]", "{}", "{ a = 1 }", "1979-05-27", "07:32:00"),
    *('"""x', "'", "[" * 3000, '"' + "x" * 9000 + '"'),
]

LINES = [
    *("[model]", "[[model]]", "[data.train]", "[a.b.c]", "a." * 5000 + "a = 1", '"" = 1', "= 1", "k" * 9000 + " = 1"),
    *("# model_dim is left out  # default", "# train is left out  # x", "# task is left out  # x", '"\\u001b[2J" = 1'),
    *("x = [" + "1, " * 3000 + "]", "\n".join(f"k{i} = {i}" for i in range(3000)), 'x = """' + "y\n" * 3000 + '"""'),
]

SPOILERS: dict[str, tuple[str, Callable[[bytes, random.Random], bytes]]] = {
    "weights": ("model.safetensors", spoil_weights),
    "weights in int8": ("model.safetensors", spoil_weights),
    "config": ("config.toml", spoil_config),
    "manifest": ("manifest.json", spoil_json),
    "vocabulary": ("tokenizer.source.model", spoil_vocabulary),
    "archive": ("model.zip", spoil_archive),
}

if __name__ == "__main__":
    main()
