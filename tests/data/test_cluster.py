"""Work over a Ray cluster: the same answers in the same order, and one clear error where it cannot be done."""

import importlib.util
import logging
import os
import secrets
import socket
import subprocess
import sys
from functools import partial

import pytest

from weft.data.cluster import Parcel, answer_row, cluster_workers
from weft.errors import CorpusError, MissingExtraError, Problem, WeftError

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install -e '.[cluster]'"
)


def checked(number: int, most: int) -> str:
    if number > most:
        raise CorpusError("a.tsv", [Problem("line 3", f"{number} is too many")])
    return f"第{number}个"


@needs_ray
@pytest.mark.slow
def test_answers_come_in_order_and_an_error_comes_as_itself_without_noise() -> None:
    program = """
from weft.data.cluster import cluster_workers
from weft.errors import CorpusError, Problem, WeftError

def checked(number):
    if number > 100:
        raise CorpusError("a.tsv", [Problem("line 3", f"{number} is too many")])
    return number * 2

def numbers():
    for number in range(10_000):
        read.append(number)
        yield number

read = []
with cluster_workers() as each:
    answers = each(checked, numbers())
    print([next(answers) for _ in range(101)] == [number * 2 for number in range(101)])
    try:
        next(answers)
    except WeftError as error:
        print(error)
print(len(read) < 1000)
"""
    # In a process of its own: Ray leaves its children to the collector. Its pass is written nowhere.
    own = {"RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_AUTH_MODE": "token"}
    environment = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")} | own
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.stdout == "True\na.tsv has 1 problem\n  line 3  101 is too many\nTrue\n"
    assert (done.returncode, done.stderr) == (0, "")


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("ray", "ray.data"):
        monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[cluster\]'"), cluster_workers():
        pass


@needs_ray
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of Ray's own
def test_a_cluster_that_does_not_answer_is_told_at_once_and_none_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setenv("RAY_ADDRESS", address)
        message = rf"^cannot use a Ray cluster at RAY_ADDRESS = {address}: .*refused"
        with pytest.raises(WeftError, match=message), cluster_workers():
            pass
    assert logging.getLogger("ray.data").level != logging.ERROR


def test_an_error_of_a_machine_is_an_answer_too() -> None:
    def answer(number: int) -> object:
        return answer_row(partial(checked, most=4), {"item": Parcel(number)})["answer"].content

    assert answer(4) == "第4个"
    told = answer(5)
    assert type(told) is WeftError and "5 is too many" in str(told)
