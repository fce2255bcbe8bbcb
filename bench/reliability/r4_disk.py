"""R4: the disk is full or read-only, or the run folder may no longer be written; what becomes of a run?

`python -m bench.reliability.r4_disk`. It must end with one clear message and exit code 1, what was saved must be
whole, and once the cause is gone the same command must go on to the very end that an undisturbed run has. The disk is
full and the permission gone in the middle of the run; the disk is read-only when a stopped run is to go on.

A full and a read-only disk are a small tmpfs where one may be mounted (root on Linux). Elsewhere a full disk is a limit
on the size of files (RLIMIT_FSIZE) that the running process is given, and the read-only one is left out. Root may write
everywhere, so its process first gives up that privilege (CAP_DAC_OVERRIDE).
"""

import ctypes
import errno
import os
import resource
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.reliability.place import (
    LONGEST_RUN,
    broken_checkpoints,
    differences,
    finish,
    last_step,
    one_message,
    place,
    start,
    wait_for,
)
from bench.reliability.record import options_of, record

NAME = "R4"
DOES = {
    "en": "in mid-run the disk is full ({full}) or the permission to write is lost ({permission}); the disk is "
    "read-only when a run is to go on ({read_only})",
    "zh": "训练中途磁盘写满（{full}）、写权限丢失（{permission}）；继续时磁盘已是只读（{read_only}）",
}
FOUND = {
    "en": "{passes} of {cases}: one message, exit code 1, what was saved whole; the same command then ends like an "
    "undisturbed run",
    "zh": "{cases} 种里有 {passes} 种：一条报错，退出码 1，已保存的内容完好；之后同一条命令的结果与不受打扰的运行相同",
}

DISK = "24m"
"""Size of the tmpfs: room for a run of some megabytes, and soon full."""


def main() -> None:
    options = options_of(__doc__)
    with place() as folder:
        finish(folder, "whole")
        ways = {"full": full_disk, "read_only": read_only_disk, "permission": lost_permission}
        outcomes = {name: way(folder) for name, way in ways.items()}
    tested = {name: problems for name, (how, problems) in outcomes.items() if problems is not None}
    figures = {
        **{name: how for name, (how, _) in outcomes.items()},
        "cases": len(tested),
        "passes": sum(not problems for problems in tested.values()),
        "problems": {name: problems for name, problems in tested.items() if problems},
    }
    record(options, NAME, figures, passed=figures["passes"] == figures["cases"])


Outcome = tuple[str, list[str] | None]
"""How the fault was made, and what went wrong in the run; None where it could not be made here."""


def full_disk(folder: Path) -> Outcome:
    with small_disk(folder / "full") as disk:
        if disk is None:
            return "RLIMIT_FSIZE", spoil(folder, "limited", limit_files, no_more_limit, "File too large")
        ballast = disk / "ballast"
        reason = "No space left on device"
        return "tmpfs", spoil(folder, "full/run", lambda _: fill(ballast), lambda _: ballast.unlink(), reason)


def read_only_disk(folder: Path) -> Outcome:
    with small_disk(folder / "read-only") as disk:
        if disk is None:
            return "not tested: no tmpfs can be mounted here", None

        with start(folder, "read-only/run") as running:
            wait_for(lambda: last_step(disk / "run") >= 3, running, LONGEST_RUN)
            running.send_signal(signal.SIGINT)
            running.communicate(timeout=LONGEST_RUN)
        saved = last_step(disk / "run")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with start(folder, "read-only/run") as running:
            _, said = running.communicate(timeout=LONGEST_RUN)
        problems = unlike_an_error(running.returncode, said, ["Read-only file system"])
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        return "tmpfs", problems + unlike_a_whole_run(folder, "read-only/run", saved)


def lost_permission(folder: Path) -> Outcome:
    run = folder / "permission"

    def change(mode: int) -> Callable[[int], None]:
        def to_all_folders(_: int) -> None:
            for path in (run, run / "checkpoints"):
                os.chmod(path, mode)

        return to_all_folders

    process: dict[str, Any] = {"preexec_fn": give_up_privilege} if os.geteuid() == 0 else {}
    return "chmod", spoil(folder, run.name, change(0o555), change(0o755), "Permission denied", **process)


def give_up_privilege() -> None:
    """Let what is executed next write, as root, only where the permissions of a file allow it (prctl(2))."""
    drop_from_bounding_set, dac_override = 24, 1
    if ctypes.CDLL(None, use_errno=True).prctl(drop_from_bounding_set, dac_override, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "the privilege to write everywhere cannot be given up")


def spoil(
    folder: Path, run: str, begin: Callable[[int], object], end: Callable[[int], object], reason: str, **process: Any
) -> list[str]:
    """Let the fault begin in the middle of a run and end after it, and tell what was not as it should be.

    `begin` and `end` are given the process's id; `reason` is how the system calls the fault.
    """
    with start(folder, run, **process) as running:
        wait_for(lambda: last_step(folder / run) >= 3, running, LONGEST_RUN)
        begin(running.pid)
        _, said = running.communicate(timeout=LONGEST_RUN)
    saved = last_step(folder / run)
    problems = unlike_an_error(running.returncode, said, [reason, "intact"])
    end(running.pid)
    return problems + unlike_a_whole_run(folder, run, saved, **process)


def unlike_an_error(exit_code: int, said: str, expected: list[str]) -> list[str]:
    """What was not as in one clear error that says all of this."""
    problems = [] if exit_code == 1 else [f"exit code {exit_code}"]
    return problems if one_message(said, expected) else [*problems, f"it said: {said[-500:]}"]


def unlike_a_whole_run(folder: Path, run: str, saved: int, **process: Any) -> list[str]:
    """What was not as it should be with a run that goes on from this step, and what differs from an undisturbed one."""
    problems = broken_checkpoints(folder / run)
    if f"continuing from step {saved} of" not in finish(folder, run, **process):
        problems.append(f"it did not go on from step {saved}")
    return problems + differences(folder / run, folder / "whole")


@contextmanager
def small_disk(path: Path) -> Iterator[Path | None]:
    """A small tmpfs of one's own, or None where none can be mounted."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(path)]
    try:
        is_mounted = subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0
    except FileNotFoundError:
        is_mounted = False
    try:
        yield path if is_mounted else None
    finally:
        if is_mounted:
            subprocess.run(["umount", str(path)], check=True)


def fill(ballast: Path) -> None:
    """Write until nothing more fits."""
    with open(ballast, "wb", buffering=0) as file:
        for size in (1 << 16, 1 << 10, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise


def limit_files(pid: int) -> None:
    """From now on the process can write no file of more than 64 KiB."""
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (1 << 16, resource.RLIM_INFINITY))


def no_more_limit(_: int) -> None:
    """The limit has gone with its process."""


if __name__ == "__main__":
    main()
