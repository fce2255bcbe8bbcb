"""The models that come with weft: `make bench-shipped`, or `python -m bench.shipped`; five minutes of a GPU in all.

    cut      tatoeba-zh-en into train.tsv and valid.tsv, and the Tatoeba rows of zh-en-50k/valid.tsv beside them
    pairs    more sentences and words with free licenses, and sentences made by rule (bench/shipped_pairs.py)
    back     the model of the other direction that ships turns people's sentences into sources, by sampling (Edunov et
             al. 2018, "Understanding Back-Translation at Scale"): back.zh-en.tsv, back.en-zh.tsv
    train    recipes/tatoeba-zh-en.toml and tatoeba-en-zh.toml, for as long as --budget says
    ship     the weights in int8 into src/weft/pretrained, with a card that says license, sources and scores

A run that was stopped goes on. `--until train` ships nothing; a folder with the runs of another machine goes on from
there.

Only what may be shipped is in them: the rest of zh-en-50k may not be used commercially, so no weight of these models
has seen it. The weights are chosen on valid.tsv, which shares no sentence with the training files on either side; the
scores are those on the Tatoeba rows of zh-en-50k/valid.tsv. `--against RUN` scores another run on these, such as one of
recipes/zh-en-50k.toml, which has seen dialogues too. Each model is a line of bench/results/shipped.jsonl; `--docs` puts
the table of the last ones into docs/*/model-folder.md.
"""

import argparse
import gzip
import hashlib
import json
import os
import re
import shutil
import unicodedata
from collections import Counter
from pathlib import Path

from bench.everyday import everyday_pairs, everyday_rows, number_rows, passed
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
from bench.pairs import Pair, read_pairs, write_pairs

from weft.data.corpus import read_corpora
from weft.data.keys import keys_of
from weft.data.store import open_store
from weft.evaluating.evaluation import EvaluatedSet, evaluate
from weft.files import write_atomically
from weft.folders.card import model_card, recorded_files
from weft.folders.copy import copy_model
from weft.folders.finding import PRETRAINED, find_model
from weft.folders.manifest import CARD, MANIFEST
from weft.folders.model_folder import load_model
from weft.runs.train import train
from weft.text.chinese import convert_script
from weft.training.run_folder import RunStatus
from weft.translating.loading import load_translator
from weft.translating.translator import Translator

LINES = RESULTS / "shipped.jsonl"
MODELS = ("zh-en", "en-zh")
OPPOSITE = {"zh-en": "en-zh", "en-zh": "zh-en"}
HELD_OUT = 500
STAGES = ("pairs", "back", "train", "ship")
SAMPLING = {"method": "sample", "top_k": 10}
MAX_RATIO = 3
"""Of the letters of a back-translation to those of its source, beside the usual one of the two languages."""
LARGEST = 30_000_000
"""Bytes that a model may take in the repository."""


HEADER = "license: cc-by-2.0-fr\nlicense_link: https://creativecommons.org/licenses/by/2.0/fr/\n"
ATTRIBUTION = """\
The sentences are from [Tatoeba](https://tatoeba.org) and its contributors, licensed
[CC BY 2.0 FR](https://creativecommons.org/licenses/by/2.0/fr/), as selected and packed by
[manythings.org/anki](https://www.manythings.org/anki/) and by hsk-annotated-corpus (Mandarin and English); so is this
model, which was made from them by training. Beside them it learned from:

- XPersona (MIT; its English is PersonaChat's, CC BY 4.0), TICO-19 (CC0), SHLEW06's HSK reader (MIT)
- names and words of Unicode CLDR (Unicode License v3), GeoNames (CC BY 4.0), Chinese Open Wordnet and WordNet (their
  licenses), OpenStreetMap's presets (ISC), name-suggestion-index (BSD 3-Clause), football-team-names-zh (MIT)
- phrases of the user interfaces of Android's and LineageOS's apps and of Home Assistant (Apache 2.0)

`human.tsv` has the sentences, `words.tsv` names and phrases, `made.tsv` sentences filled by rule with numbers, dates
and names, `changed.*.tsv` sentences of `human.tsv` with a greeting or without their full stop, and `back.*.tsv` what
people wrote in the target language with the source that an earlier model of the other direction, trained on Tatoeba's
sentences, made of it. No file has a sentence of `valid.tsv` or of `everyday.*.tsv` beside this folder, and none but the
sources of `back.*.tsv`, which were not compared, one of the validation or test pairs of zh-en-50k that are from
Tatoeba. `python -m bench.shipped` makes all of them again. In a test of 150 everyday sentences {everyday} have what a
translation must have, and of 240 numbers of one to five digits {numbers} are right (`python -m bench.everyday`).
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.shipped", description="Make the models that come with weft.")
    parser.add_argument("--data", type=Path, default=os.environ.get("WEFT_DATA"), help="left out: WEFT_DATA")
    parser.add_argument("--work", type=Path, default=Path("runs/shipped"), help="where the pairs and the runs lie")
    parser.add_argument("--only", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--until", choices=STAGES, default="ship", help="the last stage")
    parser.add_argument(
        "--budget", metavar="TIME", help="of a training, such as 4m; left out: the epochs of the recipe"
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a key of the recipe")
    parser.add_argument("--against", type=Path, metavar="RUN", help="train nothing, score this run on the same rows")
    parser.add_argument("--table", action="store_true", help="train nothing, print what the models score")
    parser.add_argument("--docs", action="store_true", help="also put that into the docs")
    options = parser.parse_args()
    if not options.table:
        make(options)
    if options.until != "ship":
        return
    lines = list({line["model"]: line for line in read_lines(LINES)}.values())
    if not lines:
        raise SystemExit("no model yet")
    tables = {language: table(lines, language) for language in HEADERS}
    print(tables["en"])
    if options.docs:
        fill_page("model-folder.md", "shipped", tables)


def make(options: argparse.Namespace) -> None:
    if options.against is not None:
        recipe = load_model(find_model(options.against)).recipe.data
        name = f"{recipe.source}-{recipe.target}"
        facts = {"model": f"{options.against.name} ({name})", "bytes": None, **spent(options.against)}
        evaluated = score(find_model(options.against), options.work / f"tatoeba.{name}.tsv")
        append_line(LINES, {**circumstances(), **facts, **evaluated.as_dict()})
        return
    if not (options.work / "made.tsv").exists():
        if options.data is None:
            raise SystemExit("say where tatoeba-zh-en, shippable-zh-en and zh-en-50k lie: --data DIR, or WEFT_DATA")
        from bench.shipped_pairs import make as make_pairs  # which imports this module

        cut(options.data, options.work)
        make_pairs(options.data, options.work)
    last = STAGES.index(options.until)
    for name in options.only:
        if last >= STAGES.index("back"):
            back(name, options.work)
        run = options.work / name
        if last >= STAGES.index("train") and not (run / MANIFEST).exists():  # else it was finished, perhaps elsewhere
            train(recipe_of(name), run=run, data=options.work, overrides=options.set, budget=options.budget)
        if last >= STAGES.index("ship"):
            ship(name, run, options.work)


def back(name: str, work: Path) -> None:
    """Write back.NAME.tsv: what people wrote in the target language, and sources that the other model makes of it."""
    if (work / f"back.{name}.tsv").exists():
        return
    side = 0 if name.endswith("zh") else 1
    texts = list(dict.fromkeys(pair[side] for pair in read_pairs(work / "human.tsv")))
    translator = load_translator(OPPOSITE[name], ["decoding.precision=auto"])
    texts = [text for text, is_short in zip(texts, translator.can_read(texts), strict=True) if is_short]
    written = [translation.text for translation in translator.translate(texts, **SAMPLING)]
    pairs = [(new, text) if side else (text, new) for new, text in zip(written, texts, strict=True)]
    held_out = [*read_pairs(work / "valid.tsv"), *everyday_pairs()]
    kept = new_pairs([pair for pair in pairs if fits(pair)], read_pairs(work / "human.tsv"), held_out)
    write_pairs(work / f"back.{name}.tsv", kept)
    say(f"back.{name}: {len(kept):,} of {len(pairs):,} pairs are new and have no sentence that is held out")


def fits(pair: Pair) -> bool:
    """Whether the lengths of the two sides are alike, at about 2.6 English letters for a Chinese one."""
    zh, en = (len(text) + 4 for text in pair)
    return bool(pair[0] and pair[1]) and zh / MAX_RATIO < en / 2.6 < zh * MAX_RATIO


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
    )
    write_atomically(staged / CARD, with_license(card, passed_of(staged)))
    if (size := sum(file.stat().st_size for file in staged.iterdir())) > LARGEST:
        raise SystemExit(f"{name} takes {size:,} bytes; a model in the repository may have {LARGEST:,}")
    PRETRAINED.mkdir(exist_ok=True)
    shutil.rmtree(PRETRAINED / name, ignore_errors=True)
    shutil.copytree(staged, PRETRAINED / name)
    facts = {"model": name, "bytes": size, **spent(run)}
    append_line(LINES, {**circumstances(), **facts, **evaluated.as_dict()})
    tables = "\n\n".join(table.text() for table in evaluated.tables())
    say(f"{name}: {size:,} bytes\n{tables}")


def spent(run: Path) -> dict[str, int]:
    """The steps to a run's best weights, and about how many target tokens were in them."""
    steps = best_step(run)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    epochs = next(row["epoch"] for row in rows if row["step"] == steps and "valid_loss" in row)
    tokens = int((open_store(run / "corpus").columns["target"].lengths - 1).sum())  # <s> is not predicted
    return {"steps": steps, "target_tokens": round(epochs * tokens)}


def passed_of(folder: Path) -> tuple[int, int]:
    """How many of bench/everyday.py's sentences, and of its numbers, a model translates as they must be."""
    translator = Translator(load_model(folder))
    direction = "-".join(translator.languages)
    everyday, numbers = (passed(translator, rows) for rows in (everyday_rows(direction), number_rows(direction)))
    return len(everyday[0]), len(numbers[0])


def best_step(run: Path) -> int:
    step = RunStatus.read(run / "run.json").best
    assert step is not None, f"{run} was never validated"
    return step


def with_license(card: str, passed: tuple[int, int]) -> str:
    """The card with the license and the sources of these models."""
    changes = {
        "license: unknown\n": HEADER,
        "The license of the weights follows from .*\n": ATTRIBUTION.format(everyday=passed[0], numbers=passed[1]),
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
    "zh": "没有列出大小的那个模型不随 weft 提供：它还学过 zh-en-50k 里的对话，"
    "权重是在整个 valid.tsv 上选定的，其中包括这些句子。",
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
