"""`weft watch` of a study, and of a folder of runs."""

import shutil
from pathlib import Path

import pytest
from tests.analysis.test_watching import step, validation, write
from tests.command_line import Weft
from tests.tuning.conftest import RATES

from weft.cli import watch, watch_many
from weft.files import try_lock
from weft.tuning.opening import open_study
from weft.tuning.study import Study


def test_a_study_is_told_in_counts_and_by_its_best_cells(
    weft: Weft, copied: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copied.folder
    code, out, error = weft("watch", str(folder), "--once")
    first, second, *cells = out.splitlines()
    assert (code, error) == (0, "") and first == "study  4 trials: 4 done, 0 training, 0 to come"
    assert second == "sacreBLEU so far, the best first" and len(cells) == 4
    assert any(cell.endswith("2 seeds  training.learning_rate = 0.001, decoding.beam_size = 1") for cell in cells)

    (folder / "trials/0003/result.json").unlink()
    before = sorted(path.relative_to(folder) for path in folder.rglob("*"))
    with open(folder / "trials/0003/lock", "a") as lock:
        assert try_lock(lock)
        code, out, _ = weft("watch", str(folder), "--once")
        assert code == 0 and out.startswith("study  4 trials: 3 done, 1 training, 0 to come  left 0:0")
        assert out.splitlines()[1].startswith("0003  finished")
    monkeypatch.setattr(watch_many, "IDLE", -1.0)
    assert weft("watch", str(folder), "--until", "finished")[0] == 3
    assert sorted(path.relative_to(folder) for path in folder.rglob("*")) == before

    (folder / "facts.json").write_text("{", encoding="utf-8")
    code, _, error = weft("watch", str(folder))
    assert code == 1 and f"weft tune {folder} restores it" in error


def test_trials_that_are_to_be_added_are_to_come(weft: Weft, copied: Study, tmp_path: Path) -> None:
    more = f"{RATES}\n[confirm]\nseeds = [7, 8]\n".replace("tiny.toml", str(copied.data_root / "tiny.toml"))
    (tmp_path / "rates.toml").write_text(more, encoding="utf-8")
    open_study(tmp_path / "rates.toml", folder=copied.folder)
    assert weft("watch", str(copied.folder), "--once")[1].startswith("study  8 trials: 4 done, 0 training, 4 to come")


def test_a_study_that_is_still_prepared_is_seen_once_it_is_there(rates: Study, tmp_path: Path) -> None:
    folder = tmp_path / "study"
    (folder / "trials").mkdir(parents=True)
    view = watch.view_of(folder, None)
    assert not view.read()
    shutil.copytree(rates.folder, folder, dirs_exist_ok=True)
    with pytest.raises(watch.HoldsSeveral):
        view.read()
    assert isinstance(watch.view_of(folder, None), watch_many.Study)


def test_the_time_left_of_a_study_is_that_of_its_trials_side_by_side(copied: Study) -> None:
    """No trial is to come. Of the one that trains, 20 of 100 steps took 10 seconds: 40 are left."""
    folder = copied.folder
    (folder / "trials/0003/result.json").unlink()
    shutil.rmtree(folder / "trials/0003/run")
    write(folder / "trials/0003/run", step(20), recipe="[training]\nsteps = 100")
    with open(folder / "trials/0003/lock", "a") as lock:
        assert try_lock(lock)
        study = watch_many.Study(folder)
        study.read()
        assert study.seconds_left() == pytest.approx(40, abs=2)


def test_the_runs_of_a_folder_have_a_line_each(weft: Weft, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    write(folder / "first", step(20), validation(20, 2.0, valid_bleu=3.0), finished=True)
    write(folder / "第二", step(20, None))
    with open(folder / "第二/lock", "a") as lock:
        assert try_lock(lock)
        code, out, _ = weft("watch", str(folder), "--once")
        assert code == 0 and out.splitlines()[0] in (
            "runs  2 runs: 1 training, 1 finished",
            "runs  2 runs: 1 finished, 1 training",
        )
        lines = sorted(out.splitlines()[1:])
        assert lines[0] == "first  finished  step 20/300  epoch 2.00  loss 3.000  BLEU 3.00"
        assert lines[1].startswith("第二  at step 20 the loss is infinite or NaN  step 20/300")
        assert weft("watch", str(folder), "--until", "sick")[0] == 1
    assert weft("watch", str(folder), "--until", "sick")[0] == 3
    write(folder / "第二", step(20), finished=True)
    assert weft("watch", str(folder), "--until", "finished")[0] == 0
    code, _, error = weft("watch", str(folder), "--against", str(folder / "first"))
    assert code == 2 and "holds several" in error
