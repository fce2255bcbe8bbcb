"""R13: what R1 shows of a translator, of every other kind of run: is anything ever lost?

`python -m bench.reliability.r13_kinds`. For a recurrent translator, each kind of language model on running text, whose
state is carried from batch to batch, and for questions with documents: one run is left alone, others are killed with
SIGKILL at random moments and rerun until they come to their end (r1_kills.py).
"""

from pathlib import Path

from bench.reliability.place import RECIPE, furnish, place
from bench.reliability.r1_kills import kill_runs
from bench.reliability.record import options_of, record

from weft.data.starter import load

NAME = "R13"
DOES = {
    "en": "`kill -9` at random moments of runs of the other kinds: recurrent translation, language models, questions",
    "zh": "在随机时刻 `kill -9` 其他各类运行：循环网络翻译、语言模型、问答",
}
FOUND = {
    "en": "{kinds} kinds, {kills} kills in {runs} runs: {corrupt} corrupt checkpoints, {stuck} stuck, {different} runs "
    "that end otherwise than one left alone",
    "zh": "{kinds} 类，{runs} 个运行里杀了 {kills} 次：损坏的检查点 {corrupt} 个，卡住 {stuck} 次，"
    "结果与不受打扰的运行不同的 {different} 个",
}

TRANSLATION = f"""\
{RECIPE.partition("[model]")[0]}[model]
kind = "recurrent"
embedding_dim = 32
hidden_dim = 32
copying = true
scheduled_sampling = 0.2
weight_drop = 0.2
"""
RUNNING_TEXT = """\
task = "language-model"
[data]
language = "en"
train = ["train.txt"]
valid = ["valid.txt"]
running = true
context = 32
[tokenizer]
kind = "characters"
[model]
model_dim = 32
"""
QUESTIONS = """\
task = "knowledge"
[data]
language = "en"
train = ["train.txt", "train.tsv"]
valid = ["valid.tsv"]
context = 64
salient = 0.5
[model]
model_dim = 32
num_heads = 4
num_layers = 1
"""
TRAINING = """\
[training]
batch_sentences = 16
steps = 60
log_every = 1
validate_every = "20 steps"
checkpoint_every = "3 steps"
"""
KINDS = {
    "recurrent-translator": TRANSLATION,
    "window": RUNNING_TEXT + 'kind = "window"\n',
    "rnn": RUNNING_TEXT + 'kind = "recurrent"\ncell = "rnn"\n',
    "gru": RUNNING_TEXT + 'kind = "recurrent"\ncell = "gru"\nvariational = true\n',
    "lstm": RUNNING_TEXT + 'kind = "recurrent"\ncell = "lstm"\nweight_drop = 0.3\n',
    "transformer": RUNNING_TEXT + 'kind = "transformer"\nnum_heads = 4\nnum_layers = 1\ndropout = 0.1\n',
    "questions": QUESTIONS,
}


def main() -> None:
    options = options_of(__doc__, kills=(5, "how many for each kind"), seed=(20, "of the moments"))
    with place() as folder:
        found = [kill_runs(furnish_kind(folder / kind, kind), options.kills, options.seed) for kind in KINDS]
    figures = {"kinds": len(KINDS)} | {name: sum(each[name] for each in found) for name in found[0]}
    passed = not (figures["corrupt"] or figures["stuck"] or figures["different"] or figures["left"])
    record(options, NAME, figures, passed=passed)


def furnish_kind(folder: Path, kind: str) -> Path:
    """A folder with the recipe of this kind, and the corpus as pairs and as English text."""
    folder.mkdir()
    furnish(folder)
    corpus = load()
    for name, part in (("train", corpus["train"][:400]), ("valid", corpus["valid"][:8])):
        (folder / f"{name}.txt").write_text("".join(f"{english}\n" for _, english in part), encoding="utf-8")
    (folder / "tiny.toml").write_text(KINDS[kind] + TRAINING, encoding="utf-8")
    return folder


if __name__ == "__main__":
    main()
