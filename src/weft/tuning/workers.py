"""Several workers on one study: processes of this machine, or tasks of a Ray cluster. Each does `work`."""

import os
import subprocess
import sys
import time
from pathlib import Path

from weft.data.cluster import connect, errors_only, first_line
from weft.errors import FailedElsewhere, WeftError, WorkerLost, needing
from weft.training.signals import LOOK_EVERY, stop_on_signal
from weft.training.task import Listener
from weft.tuning.opening import open_study
from weft.tuning.study import Study
from weft.tuning.working import is_finished, work


def work_together(study: Study, workers: int, listener: Listener) -> None:
    """Work on a study in several processes until it is finished. What a killed process was at is taken by another.

    Raises Stopped after a signal, which is passed on, and WorkerLost if all processes are killed.
    """
    command = [sys.executable, "-m", "weft", "tune", str(study.folder), "--worker", str(os.getpid())]
    environment = {**os.environ, "OMP_NUM_THREADS": str(study.base.recipe.training.threads)}
    with stop_on_signal() as stop:
        running = [
            # in sessions of their own, so that Ctrl-C reaches them once, from here
            subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment, start_new_session=True)
            for _ in range(workers)
        ]
        try:
            codes = [None] * workers
            is_told = False
            while None in codes:
                time.sleep(LOOK_EVERY)
                if stop.requested and not is_told:
                    is_told = True
                    for process in running:
                        process.terminate()
                codes = [process.poll() for process in running]
        finally:
            for process in running:
                process.terminate()
        stop.honor("the study was stopped")
    lost = [code for code in codes if code is not None and code < 0]
    if lost:
        listener.on_message(f"{len(lost)} of {workers} workers were killed")
    if not is_finished(study):
        if failed := [code for code in codes if code is not None and code > 0]:
            raise FailedElsewhere("a worker failed", max(failed))  # it has said why
        raise WorkerLost("all workers were killed; the same command goes on from here")


def join(folder: str) -> None:
    """What a worker of a cluster does."""
    work(open_study(folder))


def work_on_cluster(study: Study, workers: int, listener: Listener) -> None:
    """Work on a study in tasks of a Ray cluster, each on as many cores as a trial has threads. All machines must share
    the disk with the study and its data.

    Raises MissingExtraError if Ray is not installed, and WeftError if the cluster cannot be reached.
    """
    with needing("Ray, which starts workers on a cluster,", "cluster"):
        import ray  # pyright: ignore[reportMissingImports]
    from ray.exceptions import RayError, RayTaskError  # pyright: ignore[reportMissingImports]

    was_connected = ray.is_initialized()
    with errors_only("ray"):
        if not was_connected:
            connect()
        try:
            remote = ray.remote(num_cpus=study.base.recipe.training.threads, max_retries=0)(join)
            folder, errors = str(Path(study.folder).resolve()), list[str]()
            running = [remote.remote(folder) for _ in range(workers)]
            for one in running:
                try:
                    ray.get(one)
                except RayTaskError as error:
                    errors.append(first_line(error.cause or error))
                except RayError as error:  # it was lost, and the others take its trial
                    listener.on_message(f"a worker was lost: {first_line(error)}")
            if errors:
                raise WeftError(f"a worker failed: {errors[0]}")
            if not is_finished(study):
                work(study, listener)
        finally:
            if not was_connected:
                ray.shutdown()
