"""A study is a folder: made once, worked on by any number of processes, and the same whatever happens to them."""

import contextlib
import gzip
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from tests.command_line import Weft
from tests.tuning.conftest import RATES
from tests.watching import Watcher, values

from weft.config import differences, parse_rendered
from weft.errors import CorpusError, RecipeError, RunError, UsageError
from weft.folders.recipes import TranslationRecipe
from weft.metrics.references import reference_sets
from weft.metrics.translation import score_translations
from weft.runs.train import Silent
from weft.tuning.cells import identity
from weft.tuning.hours import Hours, plan_study
from weft.tuning.judging import judged
from weft.tuning.opening import keep_facts, open_study
from weft.tuning.results import confirmation, say_in, tables
from weft.tuning.study import Study, holding_lock
from weft.tuning.trial import Spec, make_trial
from weft.tuning.working import length_for, work

Make = Callable[[str], Study]


def weights(study: Study) -> dict[int, dict[str, Any]]:
    return {trial.number: load_file(trial.run / "model.safetensors") for trial in study.trials()}


def are_equal(ours: dict[int, dict[str, Any]], theirs: dict[int, dict[str, Any]]) -> bool:
    return ours.keys() == theirs.keys() and all(
        tensor.equal(theirs[number][name]) for number in ours for name, tensor in ours[number].items()
    )


def test_every_trial_has_the_recipe_of_the_base_but_for_what_varies(rates: Study) -> None:
    for trial in rates.trials():
        text = (trial.run / "config.toml").read_text(encoding="utf-8")
        recipe, result = parse_rendered(text, TranslationRecipe, trial.path), rates.result(trial)
        assert result is not None
        changes = {change.key: change.new for change in differences(rates.base, recipe)}
        assert changes == {
            key: value
            for key, value in {**result.settings, "seed": result.seed}.items()
            if value != {"seed": rates.base.recipe.seed}.get(key)
        }


def test_a_study_takes_as_long_as_the_worker_with_most_trials() -> None:
    three = Hours(done=1, trials=4, target_tokens=0, shapes=1, training=3000.0, measuring=600.0, workers=2)
    assert three.seconds == 2 * 1200.0


def test_a_plan_counts_what_is_left_and_leaves_the_study_as_it_was(
    copied: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.tuning.hours.TRIAL_SECONDS", 0.5)
    monkeypatch.setattr("weft.tuning.hours.DECODING_SECONDS", 0.1)
    (copied.trials()[1].path / "result.json").unlink()
    before = weights(copied)
    plan = plan_study(copied, workers=1, listener=Silent())
    assert (plan.done, plan.trials, plan.shapes) == (3, 4, 1)
    assert plan.target_tokens == copied.facts.length.target_tokens
    assert plan.training > 0 and plan.measuring > 0 and plan.seconds == plan.training + plan.measuring
    assert copied.result(copied.trials()[1]) is None and are_equal(weights(copied), before)
    copied.resolved = replace(copied.resolved, recipe=copied.config.model_copy(update={"seeds": (1, 2, 3)}))
    assert plan_study(copied, workers=1, listener=Silent()).trials == 6


def test_decoding_keys_share_a_trained_model_whose_hypotheses_are_kept(rates: Study) -> None:
    assert len(rates.trials()) == 4 and len(rates.cells()) == 4
    trial, valid = rates.trials()[0], rates.files.valid
    result = rates.result(trial)
    assert result is not None and [entry["decoding"] for entry in result.measured] == [
        {"decoding.beam_size": 1},
        {"decoding.beam_size": 2},
    ]
    hypotheses = trial.hypotheses({"decoding.beam_size": 2})
    for half, first in (("choose", 0), ("confirm", 1)):
        assert len(rates.valid(half)) == len(valid.sources[first::2])
        scores = score_translations(hypotheses[first::2], reference_sets(valid.references[first::2]), "en")
        assert result.value("chrf", half, {"decoding.beam_size": 2}) == scores["chrf"].value


def test_a_trial_chooses_its_weights_on_one_half_of_valid_alone(rates: Study) -> None:
    losses = values(rates.trials()[0].run, "valid_loss")
    result = rates.result(rates.trials()[0])
    assert result is not None
    decoding = {"decoding.beam_size": 1}
    assert (
        result.value("loss", "choose", decoding) in losses and result.value("loss", "confirm", decoding) not in losses
    )


def test_the_table_fits_and_says_that_no_test_file_was_opened(rates: Study) -> None:
    text = tables(rates)[0].text()
    assert max(map(len, text.splitlines())) <= 80
    assert "sacreBLEU on one half of valid: 3 of 5" in text and "test files opened: 0" in text
    assert text.splitlines()[1].split()[:5] == ["learning_rate", "beam_size", "sacreBLEU", "sd", "seeds"]
    assert text.count("\nlearning_rate  beam_size  ") == text.count("\nlearning_rate  ") == 2  # in both blocks


def test_files_that_models_of_a_study_are_measured_on_are_counted(
    copied: Study, tiny_run: Path, tmp_path: Path, weft: Weft
) -> None:
    test = tmp_path / "test.tsv"
    test.write_text("zh\ten\n我有一个苹果。\tI have an apple.\n", encoding="utf-8")
    model = str(copied.path_of(0) / "run")
    for data, opened in ((copied.data_root / "valid.tsv", 0), (test, 1), (test, 1)):
        assert weft("evaluate", "--model", model, "--data", str(data))[0] == 0
        assert copied.test_files_opened == opened
    assert weft("compare", model, "zh-en", "--data", str(test))[0] == 0
    assert "test files opened: 1" in tables(copied)[0].text()


def test_all_problems_of_a_study_are_reported_at_once(study: Make) -> None:
    with pytest.raises(RecipeError) as error:
        study('base = "tiny.toml"\nseed = 1\nsampler = "tpe"\n[space]\nmodel.norm = []\n')
    assert [problem.where for problem in error.value.problems] == ["seed = 1 (line 2)"]
    with pytest.raises(RecipeError, match="expected a list of values or a table, found 3"):
        study('base = "tiny.toml"\n[space]\nmodel.num_layers = 3\n')
    with pytest.raises(RecipeError) as error:
        study(
            'base = "tiny.toml"\nsampler = "tpe"\nseeds = [1, 1]\n[space]\nmodel.norm = []\n'
            "training.learning_rate = { low = 1e-4, high = 1e-3 }\n[nuisance]\nmodel.norm = ['pre']\n"
        )
    said = str(error.value)
    for what in ("model.norm has no values", "model.norm, which is in space", "trials", "names a seed twice"):
        assert what in said
    with pytest.raises(RecipeError) as error:
        study(
            'base = "tiny.toml"\nmetric = "blue"\n[space]\nmodel.posititions = ["rotary"]\n'
            "training.learning_rate = [-1.0, 1e-3]\ntraining.steps = [3]\n"
        )
    said = str(error.value)
    assert "did you mean `model.positions`?" in said and "must be greater than 0, found -1.0" in said
    assert "`budget` says how long" in said and 'metric = "blue"' in said
    assert not Path(error.value.subject).with_suffix("").exists()


@pytest.mark.parametrize("bad", ['["missing.tsv"]', '["valid.tsv"]'])
def test_a_study_whose_files_are_wrong_leaves_no_folder(corpus: Path, study: Make, bad: str) -> None:
    recipe = (corpus / "tiny.toml").read_text(encoding="utf-8").replace('["train.tsv"]', bad)
    (corpus / "tiny.toml").write_text(recipe, encoding="utf-8")
    with pytest.raises(CorpusError, match="the corpus has"):
        study(RATES)
    assert not (corpus / "study").exists()


def test_a_folder_that_is_not_a_study_is_refused(corpus: Path) -> None:
    (corpus / "study.toml").write_text(RATES, encoding="utf-8")
    with pytest.raises(UsageError, match=r"not a study: it has no facts\.json"):
        open_study(corpus)
    with pytest.raises(UsageError, match=r"there is no study .*nothere\.toml"):
        open_study(corpus / "nothere.toml")
    with pytest.raises(UsageError, match="not a study; choose another folder: --study"):
        open_study(corpus / "study.toml", folder=corpus)


def test_a_study_may_grow_but_not_become_another(copied: Study, tiny_run: Path, tmp_path: Path) -> None:
    text = RATES.replace("tiny.toml", str(tiny_run / "tiny.toml"))
    (tmp_path / "more.toml").write_text(text.replace("[1, 2]\nbudget", "[1, 2, 3]\nbudget"), encoding="utf-8")
    grown = open_study(tmp_path / "more.toml", folder=copied.folder)
    with holding_lock(copied.folder):
        assert grown.extend() and not grown.extend()
    assert [spec.seed for trial in grown.trials() if (spec := trial.spec())] == [1, 1, 2, 2, 3, 3]
    (tmp_path / "other.toml").write_text(text.replace("steps = 4", "steps = 5"), encoding="utf-8")
    with pytest.raises(RunError, match=r"budget\.steps: was 4, is 5"):
        open_study(tmp_path / "other.toml", folder=copied.folder)
    arms = text.replace("[1, 2]\nbudget", "[1, 2, 3]\nbudget") + '[arms]\npost = { "model.norm" = "post" }\n'
    (tmp_path / "arms.toml").write_text(arms, encoding="utf-8")
    with pytest.raises(RunError, match=r"arms: was {}, is {'post'"):  # whose trials none would be
        open_study(tmp_path / "arms.toml", folder=copied.folder)
    (tmp_path / "arms.toml").write_text(f"{arms}own = {{}}\n", encoding="utf-8")
    grown = open_study(tmp_path / "arms.toml", folder=copied.folder)
    assert [cell.arm for cell in grown.cells() if grown.values(cell)] == ["own"] * 4


@pytest.mark.parametrize("name", ["result.json", "trial.toml", "hypotheses.json"])
def test_a_torn_file_of_a_finished_trial_loses_nothing_but_the_trial(rates: Study, copied: Study, name: str) -> None:
    before = weights(rates)
    file = copied.trials()[1].path / name
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    watcher = Watcher()
    work(copied, watcher)
    assert any("was damaged and is made again" in told for told in watcher.messages) == (name != "trial.toml")
    if name == "hypotheses.json":
        assert file.read_bytes() == whole
    assert are_equal(weights(copied), before)
    assert [(r.settings, r.seed, r.value("chrf", decoding={"decoding.beam_size": 1})) for r in copied.results()] == [
        (r.settings, r.seed, r.value("chrf", decoding={"decoding.beam_size": 1})) for r in rates.results()
    ]


@pytest.mark.parametrize("name", ["study.toml", "base.toml", "facts.json"])
def test_a_torn_file_of_the_study_is_restored_from_its_copy(copied: Study, name: str) -> None:
    file = copied.folder / name
    whole = file.read_bytes()
    file.write_bytes(whole[:-100])
    watcher = Watcher()
    open_study(copied.folder, listener=watcher)
    assert file.read_bytes() == whole and "restored from its copy" in watcher.messages[0]
    for damaged in (file, copied.folder / "kept" / name):
        damaged.write_bytes(whole[:-100])
    with pytest.raises(RunError, match="are damaged; begin another study"):
        open_study(copied.folder)


def test_trials_are_kept_where_the_facts_are_missing(copied: Study) -> None:
    before = weights(copied)
    (copied.folder / "facts.json").unlink()
    assert are_equal(weights(open_study(copied.folder)), before)


def test_a_decoding_that_is_added_later_is_measured(study: Make, corpus: Path) -> None:
    text = 'base = "tiny.toml"\nbudget = { steps = 2 }\nvalidations = 1\n[arms]\nown = {}\n'
    text += 'narrow = { "decoding.beam_size" = 2 }\n'
    first = study(text)
    work(first)
    more = study(text + 'wide = { "decoding.beam_size" = 3 }\n')
    first.read_again()
    made = {trial.number: (trial.run / "model.safetensors").stat().st_mtime_ns for trial in first.trials()}
    assert [cell.arm for cell in first.cells()] == ["own", "narrow", "wide"]
    work(more)
    assert all(more.values(cell) for cell in more.cells())
    now = {trial.number: (trial.run / "model.safetensors").stat().st_mtime_ns for trial in more.trials()}
    assert now == made  # nothing was trained again


def test_a_point_that_cannot_be_trained_is_a_result_and_not_the_end(
    study: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.tuning.hours.TRIAL_SECONDS", 0.5)
    made = study(
        'base = "tiny.toml"\nbudget = { steps = 2 }\nmetric = "loss"\n[space]\nmodel.num_heads = [2, 3]\n'
        "training.learning_rate = [1e-3, 1e-2]\n"
    )
    assert plan_study(made, 1, Silent()).training > 0  # though the points of one number of heads take no time
    work(made)
    states = {identity(result.settings): (result.state, result.why) for result in made.results()}
    assert len(states) == 4 and sorted(state for state, _ in states.values()) == ["done", "done", "failed", "failed"]
    assert all("num_heads" in why for state, why in states.values() if state == "failed")
    assert "failed" in tables(made)[0].text()


def test_decodings_that_no_search_can_have_are_refused_before_anything_is_trained(study: Make) -> None:
    text = 'base = "tiny.toml"\n[space]\ndecoding.stopping = ["exact", "first-k"]\ndecoding.patience = [1.0, 2.0]\n'
    with pytest.raises(RecipeError, match="patience"):
        study(text)


@pytest.mark.parametrize(
    ("names", "what"),
    [
        ("[baseline]\ntraining.learning_rate = 2e-2", "baseline +names no cell"),
        (
            '[[claims]]\nsays = "x"\nbetter = { "training.learning_rate" = 1e-2 }\nworse = { arm = "a" }',
            "names 2 cells",
        ),
    ],
)
def test_a_baseline_and_claims_must_name_cells_of_the_grid(study: Make, names: str, what: str) -> None:
    arms = '[arms]\na = {}\nb = { "model.norm" = "post" }\n'
    with pytest.raises(RecipeError, match=what) as error:
        study(f'base = "tiny.toml"\n[space]\ntraining.learning_rate = [1e-3, 1e-2]\n{arms}{names}\n')
    assert Path(error.value.subject).is_file()


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('metric = "loss"\n[space]\ntokenizer.target_size = [280, 300]', "loss is by the piece"),
        ('metric = "loss"\n[arms]\na = {}\nb = { cleaning.leaks = true }', "loss is by the piece"),
        ("seeds = [1, -1]\n[space]\ntraining.learning_rate = [1e-3, 1e-2]", "seeds: -1"),
        (
            "confirm.seeds = [3000000000]\n[space]\ntraining.learning_rate = [1e-3, 1e-2]",
            "confirm.seeds: 3000000000",
        ),
        ('[space]\ndata.valid = [["valid.tsv"], ["train.tsv"]]', "data.valid +cannot vary: trials are compared on one"),
        ("[arms]\na = { data.header = false }", "data.header +cannot vary: trials are compared on one"),
        (
            'sampler = "random"\ntrials = 2\nbaseline."training.learning_rate" = 1e-3\n[space]\n'
            "training.learning_rate = [1e-3, 1e-2]",
            "names a cell of a grid",
        ),
        (
            'sampler = "random"\ntrials = 2\n[space]\ntraining.learning_rate = [1e-3, 1e-2]\n[[claims]]\nsays = "b"\n'
            'source = "c"\nbetter = { "training.learning_rate" = 1e-3 }\nworse = { "training.learning_rate" = 1e-2 }',
            "claims +names a cell of a grid",
        ),
        ('metric = "loss"\n[arms]\na = {}\nb = { "training.init" = "zh-en" }', "training.init changes the pieces"),
        ('metric = "loss"\n[fixed]\ntraining.select_by = "bleu"\n[arms]\na = {}\nb = {}', "say: set `metric`"),
        ('[fixed]\ntraining.validate_every = "1 steps"\n[arms]\na = {}\nb = { seed = 3 }', "say: set `validations`"),
    ],
)
def test_what_would_compare_nothing_is_refused(study: Make, text: str, what: str) -> None:
    with pytest.raises(RecipeError, match=what):
        study(f'base = "tiny.toml"\n{text}\n')


def test_weights_may_be_chosen_by_another_figure_than_settings_that_validations_do_not_measure(study: Make) -> None:
    space = "[space]\ntraining.learning_rate = [1e-3, 1e-2]"
    made = study(f'base = "tiny.toml"\nmetric = "sacrebleu"\n[fixed]\ntraining.select_by = "loss"\n{space}\n')
    assert (made.metric.name, made.base.recipe.training.select_by) == ("sacrebleu", "loss")


def test_an_arm_that_would_change_the_points_that_were_drawn_is_refused(study: Make) -> None:
    text = 'base = "tiny.toml"\nsampler = "random"\ntrials = 2\n[arms]\na = {}\nb = { "model.norm" = "post" }\n'
    study(text)
    with pytest.raises(RunError, match="can get more seeds, trials, and another confirm"):
        study(f'{text}c = {{ "model.norm" = "pre" }}\n')


def test_without_the_recipes_own_values_the_first_cell_is_the_baseline(study: Make) -> None:
    made = study('base = "tiny.toml"\n[space]\ntraining.learning_rate = [2e-3, 2e-2]\n')
    baseline = made.baseline()
    assert baseline is not None and baseline.values == {"training.learning_rate": 2e-3}


def test_cells_of_claims_may_have_dotted_keys(study: Make) -> None:
    text = 'base = "tiny.toml"\nmargin = 0.1\n[space]\ntraining.learning_rate = [1e-3, 1e-2]\n'
    for claim in (
        "better.training.learning_rate = 1e-3\nworse.training.learning_rate = 1e-2",
        "equal = [{ training.learning_rate = 1e-3 }, { training.learning_rate = 1e-2 }]",
    ):
        (one,) = study(f'{text}[[claims]]\nsays = "x"\n{claim}\n').config.claims
        assert {cell["training.learning_rate"] for cell in one.cells} == {1e-3, 1e-2}


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (gzip.compress(b"zh\ten\n" + b"\xe4\xbd\xa0\tyou\n" * 50, mtime=0)[:-12], "ended before"),
        (b"zh\ten\n" + b"\xe4\xbd\xa0\tyou\n" * 9 + b"\xff\xfe\xfd\tyou\n", "line 11"),
    ],
)
def test_a_damaged_file_whose_first_pairs_are_wanted_is_named(
    study: Make, corpus: Path, content: bytes, what: str
) -> None:
    (corpus / "train.tsv").write_bytes(content)
    with pytest.raises(CorpusError, match=what):
        study('base = "tiny.toml"\npairs = 5\n[space]\ntraining.learning_rate = [1e-3, 1e-2]\n')


def test_without_a_budget_every_batch_size_sees_the_data_as_often_as_the_recipe_says(study: Make, corpus: Path) -> None:
    text = (corpus / "tiny.toml").read_text(encoding="utf-8")
    (corpus / "tiny.toml").write_text(text.replace("epochs = 1", "epochs = 6"), encoding="utf-8")
    made = study('base = "tiny.toml"\n[space]\ntraining.accumulate = [1, 2]\n')
    steps = [length_for(made, trial, spec).steps for trial in made.trials() if (spec := trial.spec())]
    assert steps[0] == made.facts.length.steps and steps[1] * 2 == steps[0]


def test_a_folder_with_files_of_a_user_is_not_taken_for_an_unfinished_study(corpus: Path) -> None:
    (corpus / "study.toml").write_text(RATES, encoding="utf-8")
    (corpus / "texts").mkdir()
    (corpus / "texts" / "train.tsv").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match="is not a study; choose another folder"):
        open_study(corpus / "study.toml", folder=corpus / "texts")
    assert (corpus / "texts" / "train.tsv").read_text(encoding="utf-8") == "mine"


def test_a_cell_of_which_a_run_failed_is_neither_the_best_nor_judged(copied: Study) -> None:
    best = copied.best()
    assert best is not None
    result = next(r for r in copied.results() if r.seed == 2 and r.settings == best.settings)
    copied.trials()[result.number].write(replace(result, state="failed", measured=(), hypotheses=""))
    again = open_study(copied.folder)
    now = again.best()
    assert now is not None and now.settings != best.settings
    found = judged(again)
    assert [found.verdict(cell) for cell in found.cells if cell.settings == best.settings] == [None, None]


def test_a_choice_is_not_confirmed_by_the_new_seeds_that_happened_not_to_fail(copied: Study) -> None:
    best = copied.best()
    assert best is not None
    for seed, result in enumerate([one for one in copied.results() if one.settings == best.settings], start=11):
        trial = make_trial(copied.path_of(len(copied.trials())), Spec(result.settings, seed, "confirm"))
        failed = {"state": "failed", "measured": (), "hypotheses": "", "why": "diverged"} if seed == 12 else {}
        trial.write(replace(result, number=trial.number, seed=seed, phase="confirm", **failed))
    said = "\n".join(confirmation(open_study(copied.folder), best, say_in("en")))
    assert said == "not confirmed: a run with a new seed failed"


@pytest.mark.parametrize(
    ("space", "what"),
    [
        ('tokenizer.kind = ["characters", "words"]', "the unknown words of a vocabulary are cheap"),
        ('tokenizer.kind = ["words", 3]', r"space\.tokenizer\.kind: 3"),
        ('tokenizer.script = ["keep", "simplified"]', "tokenizer.script +cannot vary"),
        ("tokenizer.size = [60, 70]", None),
    ],
)
def test_language_models_are_compared_by_figures_that_compare_them(
    study: Make, corpus: Path, space: str, what: str | None
) -> None:
    for name in ("text", "held-out"):
        (corpus / f"{name}.txt").write_text(f"the rain in spain stays {name} in the plain\n" * 40, encoding="utf-8")
    (corpus / "lm.toml").write_text(
        'task = "language-model"\n[data]\ntrain = ["text.txt"]\nvalid = ["held-out.txt"]\nlanguage = "en"\n'
        '[tokenizer]\nkind = "characters"\nsize = 60\n[model]\nkind = "recurrent"\nmodel_dim = 8\n',
        encoding="utf-8",
    )
    text = f'base = "lm.toml"\nmetric = "bits_per_character"\nbudget.steps = 2\n[space]\n{space}\n'
    with contextlib.nullcontext() if what is None else pytest.raises(RecipeError, match=what):
        study(text)


def test_files_that_were_moved_are_found_by_data(copied: Study, tiny_run: Path, tmp_path: Path) -> None:
    for name in ("train.tsv", "valid.tsv"):
        shutil.copy(tiny_run / name, tmp_path)
    assert open_study(copied.folder, data=tmp_path).data_root == tmp_path
    assert open_study(copied.folder).data_root == tmp_path  # workers are given the folder alone
    with pytest.raises(UsageError, match="--study goes with the file"):
        open_study(copied.folder, folder=tmp_path / "other")


def test_a_study_that_was_moved_with_its_recipe_and_data_goes_on(copied: Study, corpus: Path) -> None:
    copied.facts = replace(copied.facts, data_root=str(corpus / "before"))
    keep_facts(copied)
    (corpus / "study.toml").write_text(RATES, encoding="utf-8")
    assert open_study(corpus / "study.toml", folder=copied.folder).data_root == corpus
    assert open_study(copied.folder).data_root == corpus  # workers are given the folder alone


def test_a_study_of_the_same_name_and_other_data_is_not_taken_for_one_that_is_there(study: Make, corpus: Path) -> None:
    folder = study(RATES).folder
    elsewhere = corpus / "elsewhere"
    elsewhere.mkdir()
    for name in ("tiny.toml", "study.toml", "train.tsv"):
        shutil.copy(corpus / name, elsewhere)
    (elsewhere / "valid.tsv").write_text("zh\ten\n又\tagain\n我\tI\n", encoding="utf-8")
    with pytest.raises(RunError, match="is a study of the data in"):
        open_study(elsewhere / "study.toml", folder=folder)
    assert open_study(elsewhere / "study.toml", folder=folder, data=corpus).data_root == corpus


def test_files_that_change_stop_a_study(corpus: Path, study: Make) -> None:
    made = study(RATES)
    with open(corpus / "train.tsv", "a", encoding="utf-8") as file:
        file.write("又\tagain\n")
    with pytest.raises(RunError, match="have changed since the study began"):
        work(made)
