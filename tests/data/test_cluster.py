"""Work over a Ray cluster: the same answers in the same order, and one clear error where it cannot be done."""

import importlib.util
import logging
import secrets
import socket
import sys
from collections.abc import Iterator
from functools import partial

import pytest

from weft.data.cluster import answer_row, cluster_workers
from weft.data.preparation import Each
from weft.errors import CorpusError, MissingExtraError, Problem, WeftError

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install -e '.[cluster]'"
)
# Ray's own uses of what it or Python deprecates, and the pipes and sockets that it leaves to the collector.
with_rays_warnings = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)  # fmt: skip


def checked(number: int, most: int) -> str:
    if number > most:
        raise CorpusError("a.tsv", [Problem("line 3", f"{number} is too many")])
    return f"第{number}个"


@pytest.fixture
def new_cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Each]:
    """Of this machine, whose pass is written nowhere."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    with cluster_workers() as each:
        yield each


@needs_ray
@with_rays_warnings
@pytest.mark.slow
def test_answers_come_in_order_and_an_error_comes_as_itself_without_noise(
    new_cluster: Each, capfd: pytest.CaptureFixture[str]
) -> None:
    read: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(10_000):
            read.append(number)
            yield number

    answers = new_cluster(partial(checked, most=100), numbers())
    assert [next(answers) for _ in range(101)] == [f"第{number}个" for number in range(101)]
    with pytest.raises(WeftError, match=r"^a\.tsv has 1 problem\n  line 3  101 is too many$"):
        next(answers)
    assert len(read) < 1000
    assert capfd.readouterr() == ("", "")


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("ray", "ray.data"):
        monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'weft\[cluster\]'"), cluster_workers():
        pass


@needs_ray
@with_rays_warnings
def test_a_cluster_that_does_not_answer_is_told_at_once_and_none_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setenv("RAY_ADDRESS", address)
        message = rf"^no Ray cluster at RAY_ADDRESS = {address} can be used: .*refused"
        with pytest.raises(WeftError, match=message), cluster_workers():
            pass
    assert logging.getLogger("ray.data").level != logging.ERROR


def test_what_a_machine_answers_is_bytes() -> None:
    import pickle

    def answer(number: int) -> object:
        return pickle.loads(answer_row(partial(checked, most=4), {"item": pickle.dumps(number)})["answer"])  # noqa: S301

    assert answer(4) == "第4个"
    told = answer(5)
    assert type(told) is WeftError and "5 is too many" in str(told)
