"""The models that come with weft: `make bench-shipped`, or `python -m bench.shipped`; eleven hours of a core in all.

    cut      tatoeba-zh-en into train.tsv and valid.tsv, and the Tatoeba rows of zh-en-50k/valid.tsv beside them
    first    a model of each direction from train.tsv: recipes/tatoeba-zh-en.toml and tatoeba-en-zh.toml with FIRST
    read     each of them reads its side of train.tsv, and what it writes makes pairs for both directions: data
             diversification (Nguyen et al. 2020), read.zh-en.tsv and read.en-zh.tsv
    second   the recipes with SECOND, on all three files, from the weights of the first models
    back     the second model en-zh turns the English side into Chinese sources for zh-en, by beam search and by
             sampling (Edunov et al. 2018): back.zh-en.tsv
    third    zh-en's recipe as it stands, on train.tsv and back.zh-en.tsv, from the weights of its second model; en-zh
             gained too little from a third stage to be clearly better
    ship     the weights in int8 into src/weft/pretrained, with a card that says license, sources and scores

A run that was stopped goes on. `--again` begins at `back`, with the models that ship in place of the second ones.

Only Tatoeba's sentences (CC BY 2.0 FR) are in them: the rest of zh-en-50k may not be used commercially, so no weight of
these models has seen it. The weights are chosen on valid.tsv, which shares no sentence with train.tsv on either side;
the scores are those on the Tatoeba rows of zh-en-50k/valid.tsv. `--against RUN` scores another run on these, such as
one of recipes/zh-en-50k.toml, which has seen dialogues too. Each model is a line of bench/results/shipped.jsonl;
`--docs` puts the table of the last ones into docs/*/model-folder.md.
"""

import argparse
import gzip
import hashlib
import os
import re
import shutil
import unicodedata
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from bench.machine import (
    RESULTS,
    ROOT,
    Line,
    append_line,
    circumstances,
    fill_page,
    markdown_table,
    name_of_machine,
    read_lines,
    say,
)
from bench.one_run import look_ahead, spend

from weft.cli.augment import MAX_RATIO
from weft.data.corpus import read_corpora
from weft.data.keys import keys_of
from weft.evaluating.evaluation import EvaluatedSet, evaluate
from weft.files import write_atomically
from weft.folders.card import model_card, recorded_files
from weft.folders.copy import copy_model
from weft.folders.finding import PRETRAINED, find_model
from weft.folders.manifest import CARD
from weft.folders.model_folder import load_model
from weft.preparing.parents import parents_of
from weft.runs.augment import back_translate, distill
from weft.runs.train import train
from weft.text.chinese import convert_script
from weft.training.run_folder import RunStatus
from weft.translating.translator import Translator

LINES = RESULTS / "shipped.jsonl"
MODELS = ("zh-en", "en-zh")
OPPOSITE = {"zh-en": "en-zh", "en-zh": "zh-en"}
THIRD = {"zh-en"}
"""The models that are trained in a third stage."""
HELD_OUT = 500
FIRST = [
    'data.train=["train.tsv"]',
    "augmentation.subword_sampling=0.1",
    "model.positions=sinusoidal",
    "model.dropout=0.3",
    "training.learning_rate=3e-3",
    "training.epochs=42",
    "training.validate_every=6 epochs",
]
"""What the recipes have otherwise where they train the first models, ..."""
SECOND = [
    'data.train=["train.tsv", "read.zh-en.tsv", "read.en-zh.tsv"]',
    "augmentation.subword_sampling=0.1",
    "model.positions=sinusoidal",
    "model.dropout=0.2",
    "training.epochs=10",
]
"""... and the second ones. Both were trained before weft had rotary positions; the third stage takes these instead."""
SAMPLES = 4
"""Of each sentence that is turned back, beside the best answer."""
SAMPLING = ["decoding.method=sample", "decoding.top_k=10"]
LARGEST = 16_000_000
"""Bytes that a model may take in the repository."""

Pair = tuple[str, str]  # Chinese, English

HEADER = "license: cc-by-2.0-fr\nlicense_link: https://creativecommons.org/licenses/by/2.0/fr/\n"
ATTRIBUTION = """\
The sentences are from [Tatoeba](https://tatoeba.org) and its contributors, licensed
[CC BY 2.0 FR](https://creativecommons.org/licenses/by/2.0/fr/), as selected and packed by
[manythings.org/anki](https://www.manythings.org/anki/) (Mandarin and English); so is this model, which was
made from them by training. `train.tsv` and `valid.tsv` are a cut of those pairs without any that share a sentence
with the validation or test pairs of zh-en-50k, and with no sentence in both files. {made_files} \
`python -m bench.shipped` makes all of them again.
"""

MADE_FILES = {
    "zh-en": """\
`back.zh-en.tsv` has the
English side of `train.tsv` as targets, and as its sources what the model `en-zh` made of it, which had seen nothing but
`train.tsv` and what earlier models had made of that. The weights began with those of an earlier `zh-en`, trained on
`train.tsv`, `read.zh-en.tsv` and `read.en-zh.tsv`: the Chinese and the English sides of `train.tsv`, each with what a
first model of that direction, trained on `train.tsv` alone, made of it.""",
    "en-zh": """\
`read.zh-en.tsv` and
`read.en-zh.tsv` are the Chinese and the English sides of `train.tsv`, each with what a first model of that direction,
trained on `train.tsv` alone, made of it. The weights began with those of the first of this direction.""",
}
"""What a card says of the files beside train.tsv, and of the weights before."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.shipped", description="Make the models that come with weft.")
    parser.add_argument("--data", type=Path, default=os.environ.get("WEFT_DATA"), help="left out: WEFT_DATA")
    parser.add_argument("--work", type=Path, default=Path("runs/shipped"), help="where the cut and the runs lie")
    parser.add_argument("--only", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--again", action="store_true", help="go on from the models that ship, in a new --work")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a key of the recipe")
    parser.add_argument("--against", type=Path, metavar="RUN", help="train nothing, score this run on the same rows")
    parser.add_argument("--table", action="store_true", help="train nothing, print what the models score")
    parser.add_argument("--docs", action="store_true", help="also put that into the docs")
    options = parser.parse_args()
    if options.again:
        options.only = [name for name in options.only if name in THIRD]
        if not options.only:
            parser.error(f"--again is for {', '.join(THIRD)}, which has a third stage")
    if not options.table:
        if options.data is None:
            parser.error("say where tatoeba-zh-en and zh-en-50k lie: --data DIR, or WEFT_DATA in the environment")
        make(options)
    lines = list({line["model"]: line for line in read_lines(LINES)}.values())
    if not lines:
        raise SystemExit("no model yet")
    tables = {language: table(lines, language) for language in HEADERS}
    print(tables["en"])
    if options.docs:
        fill_page("model-folder.md", "shipped", tables)


def make(options: argparse.Namespace) -> None:
    cut(options.data, options.work)
    if options.against is not None:
        recipe = load_model(find_model(options.against)).recipe.data
        name = f"{recipe.source}-{recipe.target}"
        facts = {"model": f"{options.against.name} ({name})", "bytes": None, **spent(options.against, options.data)}
        evaluated = score(find_model(options.against), options.work / f"tatoeba.{name}.tsv")
        append_line(LINES, {**circumstances(), **facts, **evaluated.as_dict()})
        return
    before = ships(options.work) if options.again else second(options)
    for name in options.only:
        run = before[name]
        if name in THIRD:
            back(name, before[OPPOSITE[name]], options.data, options.work)
            overrides = [f"training.init={run}", *options.set]
            run = train(recipe_of(name), run=options.work / name, data=options.work, overrides=overrides)
        ship(name, run, options.work)


def second(options: argparse.Namespace) -> dict[str, Path]:
    """The runs of the first two stages of both directions, of which each one needs the other."""
    first, runs = ({name: options.work / f"{name}.{stage}" for name in MODELS} for stage in ("first", "second"))
    for name, run in first.items():
        train(recipe_of(name), run=run, data=options.work, overrides=[*FIRST, *options.set])
    for name, run in first.items():
        read(name, run, options.data, options.work)
    for name, run in runs.items():
        overrides = [*SECOND, f"training.init={first[name]}", *options.set]
        train(recipe_of(name), run=run, data=options.work, overrides=overrides)
    return runs


def ships(work: Path) -> dict[str, Path]:
    """Copies of the models that ship, for they are replaced in the end."""
    copies = {name: work / f"{name}.before" for name in MODELS}
    for name, copy in copies.items():
        if not copy.exists():
            copy_model(PRETRAINED / name, copy)
    return copies


def recipe_of(name: str) -> Path:
    return ROOT / "recipes" / f"tatoeba-{name}.toml"


def cut(data: Path, work: Path) -> None:
    """Write train.tsv, valid.tsv and, for each direction, the rows that the models are scored on."""
    work.mkdir(parents=True, exist_ok=True)
    pairs = read_pairs(data / "tatoeba-zh-en" / "train.tsv")
    scored = tatoeba_rows(data / "zh-en-50k", "valid")
    # Only what is drawn is searched for scored rows: another draw would hold out what the models that ship have seen.
    training, valid = (without_held_out(part, data) for part in held_out(pairs, HELD_OUT))
    write_pairs(work / "train.tsv", training)
    write_pairs(work / "valid.tsv", valid)
    write_pairs(work / "tatoeba.zh-en.tsv", scored)
    # A model that writes Simplified Chinese is compared with Simplified references.
    write_pairs(work / "tatoeba.en-zh.tsv", [(convert_script(zh, "simplified"), en) for zh, en in scored])
    say(f"{len(training):,} training pairs, {len(valid):,} validation pairs, {len(scored):,} to score on")


def read(name: str, run: Path, data: Path, work: Path) -> None:
    """Write read.NAME.tsv: one side of train.tsv and what the run makes of it, where that teaches anything new."""
    written = work / f"written.{name}.tsv"
    distill([run], work / "train.tsv", written, max_ratio=MAX_RATIO, say=say)
    pairs = read_pairs(written)
    kept = new_pairs(without_held_out(pairs, data), read_pairs(work / "train.tsv"), read_pairs(work / "valid.tsv"))
    write_pairs(work / f"read.{name}.tsv", kept)
    say(f"{len(kept):,} of {len(pairs):,} pairs are new and have no sentence that is held out")


def back(name: str, other: Path, data: Path, work: Path) -> None:
    """Write back.NAME.tsv: what people wrote in this direction's target language, and sources that the model of the
    other direction makes of it."""
    pairs = []
    for number in range(1 + SAMPLES):
        made = work / f"made.{name}.{number}.tsv"
        how = [*SAMPLING, f"decoding.sampling_seed={number}"] if number else []
        back_translate(other, work / "train.tsv", made, max_ratio=MAX_RATIO, overrides=how, say=say)
        pairs += read_pairs(made)
    kept = new_pairs(without_held_out(pairs, data), read_pairs(work / "train.tsv"), read_pairs(work / "valid.tsv"))
    write_pairs(work / f"back.{name}.tsv", kept)
    say(f"{len(kept):,} of {len(pairs):,} pairs are new and have no sentence that is held out")


def new_pairs(pairs: list[Pair], known: list[Pair], valid: list[Pair]) -> list[Pair]:
    """The pairs, each once, that are not among the known ones and share no sentence with those of valid."""
    seen = {tuple(keys(pair)) for pair in known}
    refused = {key for pair in valid for key in keys(pair)}
    found = []
    for pair in pairs:
        key = tuple(keys(pair))
        if key not in seen and refused.isdisjoint(key):
            seen.add(key)
            found.append(pair)
    return found


def without_held_out(pairs: list[Pair], data: Path) -> list[Pair]:
    """The pairs of which no sentence stands in the Tatoeba rows of zh-en-50k/valid.tsv or test.tsv."""
    rows = [pair for part in ("valid", "test") for pair in tatoeba_rows(data / "zh-en-50k", part)]
    known = {key for pair in rows for key in keys(pair)}
    return [pair for pair in pairs if known.isdisjoint(keys(pair))]


def held_out(pairs: list[Pair], count: int) -> tuple[list[Pair], list[Pair]]:
    """The pairs without so many, and those, both of whose sentences stand in no other pair.

    The order of the sha256 of their letters draws them: the same ones from whatever order the file has.
    """
    occurrences = Counter(key for pair in pairs for key in set(keys(pair)))
    alone = [pair for pair in pairs if all(occurrences[key] == 1 for key in keys(pair))]
    drawn = set(sorted(alone, key=lambda pair: hashlib.sha256("\t".join(letters(pair)).encode()).digest())[:count])
    return [pair for pair in pairs if pair not in drawn], [pair for pair in pairs if pair in drawn]


def keys(pair: Pair) -> list[int]:
    """What its sentences are known by."""
    return keys_of(pair).tolist()


def letters(pair: Pair) -> list[str]:
    """The letters and digits of its sentences, in lower case, Simplified, composed.

    They draw and do not compare: by them the pairs were drawn that the models that ship were chosen on.
    """
    folded = (convert_script(unicodedata.normalize("NFKC", text), "simplified").lower() for text in pair)
    return ["".join(c for c in text if unicodedata.category(c)[0] in "LN") for text in folded]


def tatoeba_rows(corpus: Path, part: str) -> list[Pair]:
    """The pairs of this part of zh-en-50k that come from Tatoeba."""
    with gzip.open(corpus / f"{part}.attribution.tsv.gz", "rt", encoding="utf-8", newline="\n") as file:
        sources = [line.partition("\t")[0] for line in file][1:]
    pairs = read_pairs(corpus / f"{part}.tsv")
    return [pair for pair, source in zip(pairs, sources, strict=True) if source == "tatoeba"]


def read_pairs(path: Path) -> list[Pair]:
    """The columns zh and en."""
    header, *rows = (row.split("\t") for row in path.read_text(encoding="utf-8").removesuffix("\n").split("\n"))
    zh, en = header.index("zh"), header.index("en")
    return [(row[zh], row[en]) for row in rows]


def write_pairs(path: Path, pairs: Iterable[Pair]) -> None:
    write_atomically(path, "zh\ten\n" + "".join(f"{zh}\t{en}\n" for zh, en in pairs))


def score(folder: Path, file: Path) -> EvaluatedSet:
    translator = Translator(load_model(folder))
    return evaluate(translator, read_corpora([file.name], translator.model.recipe.data, file.parent))


def ship(name: str, run: Path, work: Path) -> None:
    """Put the model of a finished run into the package, with its card; one line of results says what it scores."""
    staged = work / f"{name}.shipped"
    shutil.rmtree(staged, ignore_errors=True)
    copy_model(run, staged, storage="int8")
    model, evaluated = load_model(staged), score(staged, work / f"tatoeba.{name}.tsv")
    steps = best_step(run)
    old = (run / CARD).read_text(encoding="utf-8")
    card = model_card(
        model,
        data={
            part: {file: digest for digest, file in recorded_files(old, part).items()} for part in ("train", "valid")
        },
        pairs=len(read_corpora(model.recipe.data.train, model.recipe.data, work)),
        steps=steps,
        validation=None,
        evaluations=[evaluated.as_dict()],
        parents=parents_of(model.recipe, {}, work),
    )
    write_atomically(staged / CARD, with_license(card, name))
    if (size := sum(file.stat().st_size for file in staged.iterdir())) > LARGEST:
        raise SystemExit(f"{name} takes {size:,} bytes; a model in the repository may have {LARGEST:,}")
    PRETRAINED.mkdir(exist_ok=True)
    shutil.rmtree(PRETRAINED / name, ignore_errors=True)
    shutil.copytree(staged, PRETRAINED / name)
    facts = {"model": name, "bytes": size, **spent(run, work)}
    append_line(LINES, {**circumstances(), **facts, **evaluated.as_dict()})
    say(f"{name}: {size:,} bytes\n{evaluated.table()}")


def spent(run: Path, data: Path) -> dict[str, int]:
    """The steps to a run's best weights, and the target tokens in them; with those of the run that it began with."""
    if run.suffix == ".before":  # a copy of what ships, whose run is gone: its last line says it
        line = next(line for line in reversed(read_lines(LINES)) if line["model"] == run.stem)
        return {key: line[key] for key in ("steps", "target_tokens")}
    steps = best_step(run)
    _, tokens = spend({"steps": steps}, look_ahead(run / "config.toml", [], data)[0])
    began_with = load_model(find_model(run)).recipe.training.init
    before = spent(Path(began_with), data) if began_with else {"steps": 0, "target_tokens": 0}
    return {"steps": before["steps"] + steps, "target_tokens": before["target_tokens"] + tokens}


def best_step(run: Path) -> int:
    step = RunStatus.read(run / "run.json").best
    assert step is not None, f"{run} was never validated"
    return step


def with_license(card: str, name: str) -> str:
    """The card with the license and the sources of these models."""
    changes = {
        "license: unknown\n": HEADER,
        "The license of the weights follows from .*\n": ATTRIBUTION.format(made_files=MADE_FILES[name]),
    }
    for old, new in changes.items():
        card, count = re.subn(f"^{old}", new, card, flags=re.MULTILINE)
        assert count == 1
    return card


HEADERS = {
    "en": ["model", "MB", "parameters", "target tokens learned from", "sacreBLEU", "chrF", "seconds"],
    "zh": ["模型", "MB", "参数", "学过的目标词元", "sacreBLEU", "chrF", "秒"],
}


AGAINST = {
    "en": "What has no size does not come with weft: it has seen the dialogues of zh-en-50k too, and its weights were "
    "chosen on all of valid.tsv, these rows among them.",
    "zh": "没有大小的不随 weft 附带：它还学过 zh-en-50k 里的对话，权重是在整个 valid.tsv 上选定的，其中包括这些句子。",
}
NOTES = {
    "en": {
        "signature": "`{model}`: `{signature}`",
        "made": "`{model}` {date}, weft {commit}, {machine}",
        "between": "; ",
        "by": "{made}; `python -m bench.shipped`.",
    },
    "zh": {
        "signature": "`{model}`：`{signature}`",
        "made": "`{model}` {date}，weft {commit}，{machine}",
        "between": "；",
        "by": "{made}；`python -m bench.shipped`。",
    },
}


def table(lines: list[Line], language: str) -> str:
    """A row for each model, and below it how the scores were made."""
    rows = [
        [
            f"`{line['model']}`",
            "–" if line["bytes"] is None else f"{line['bytes'] / 1e6:.1f}",
            f"{line['parameters']:,}",
            f"{line['target_tokens']:,}",
            *(f"{line['scores'][metric]['value']:.2f}" for metric in ("sacrebleu", "chrf")),
            f"{line['seconds']:.1f}",
        ]
        for line in lines
    ]
    note = NOTES[language]
    signatures = [
        note["signature"].format(model=line["model"], signature=line["scores"][metric]["signature"])
        for line in lines
        for metric in ("sacrebleu", "chrf")
    ]
    made = note["between"].join(note["made"].format(**line, machine=name_of_machine(line)) for line in lines)
    notes = [*signatures, note["by"].format(made=made)]
    if any(line["bytes"] is None for line in lines):
        notes.append(AGAINST[language])
    return markdown_table(HEADERS[language], rows) + "\n\n" + "\\\n".join(notes)


if __name__ == "__main__":
    main()
