"""The thread of a model: how batches are filled, how long jobs wait, and that a job fails alone."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from weft import runtime
from weft.serving import batching
from weft.serving.batching import LARGEST_BATCH, LARGEST_BATCH_CHARACTERS, AfterStep, Job, Worker


class Search:
    """Answers sentences in capitals and keeps its batches; the first batch is held until `go` is set, so that the next
    one finds all that came meanwhile."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.begun, self.go = threading.Event(), threading.Event()

    def __call__(self, sentences: Sequence[str], after_step: AfterStep) -> list[str]:
        self.batches.append(list(sentences))
        self.begun.set()
        assert self.go.wait(10)
        if "bad" in sentences:
            raise ValueError("bad")
        return [sentence.upper() for sentence in sentences]


def with_worker(test: Callable[[Worker, Search], Awaitable[Any]]) -> Any:
    """Run a test whose worker is busy with the sentence "first"."""

    async def running() -> Any:
        worker, search = Worker("test"), Search()
        worker.submit(Job(["first"], search, kind=None))
        try:
            await asyncio.to_thread(search.begun.wait, 10)
            return await test(worker, search)
        finally:
            search.go.set()
            worker.close()
            await asyncio.to_thread(worker.thread.join, 10)
            assert not worker.thread.is_alive()

    return asyncio.run(running())


def begin(worker: Worker, search: Search, *jobs: Job[str]) -> None:
    """Submit the jobs, and let the first batch go on."""
    for job in jobs:
        worker.submit(job)
    search.go.set()


def test_the_thread_of_a_model_computes_with_all_threads_whatever_another_model_is_doing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def running() -> list[int]:
        worker, job = Worker("test"), Job(["a"], lambda *_: [torch.get_num_threads()], kind=None)
        worker.submit(job)
        try:
            return await job.all()
        finally:
            worker.close()
            worker.thread.join(10)

    before = torch.get_num_threads()
    torch.set_num_threads(1)  # as a search of another model has it
    monkeypatch.setattr(runtime, "choose_threads", lambda: 3)
    try:
        assert asyncio.run(running()) == [3]
    finally:
        torch.set_num_threads(before)


def test_sentences_of_several_jobs_meet_in_a_batch_and_come_back_to_their_own() -> None:
    async def test(worker: Worker, search: Search) -> list[list[str]]:
        jobs = [Job([f"a{n}", f"b{n}"], search, kind=None) for n in range(3)]
        begin(worker, search, *jobs)
        answers = await asyncio.gather(*(job.all() for job in jobs))
        assert search.batches[1] == ["a0", "b0", "a1", "b1", "a2", "b2"]
        return answers

    assert with_worker(test) == [["A0", "B0"], ["A1", "B1"], ["A2", "B2"]]


def test_a_short_job_waits_for_no_more_than_one_batch_of_a_long_one() -> None:
    async def test(worker: Worker, search: Search) -> None:
        long, short = Job([f"long {n}" for n in range(500)], search, kind=None), Job(["short"], search, kind=None)
        begin(worker, search, long, short)
        await short.all()
        assert ["short"] in search.batches[1:3]
        assert len(search.batches[1]) in (1, LARGEST_BATCH)
        assert len(await long.all()) == 500

    with_worker(test)


def test_jobs_with_other_settings_have_their_turn_before_the_first_has_another() -> None:
    async def test(worker: Worker, search: Search) -> None:
        long, other = Job(["a"] * 200, search, kind="wide beam"), Job(["b"], search, kind="narrow beam")
        begin(worker, search, long, other)
        await asyncio.gather(long.all(), other.all())
        assert [set(batch) for batch in search.batches] == [{"first"}, {"a"}, {"b"}, {"a"}, {"a"}, {"a"}]

    with_worker(test)


def test_a_batch_has_no_more_characters_than_it_may_unless_one_sentence_has() -> None:
    async def test(worker: Worker, search: Search) -> None:
        half, huge = "x" * (LARGEST_BATCH_CHARACTERS // 2), "y" * (2 * LARGEST_BATCH_CHARACTERS)
        job = Job([half, half, half, huge, "z"], search, kind=None)
        begin(worker, search, job)
        assert await job.all() == [half.upper(), half.upper(), half.upper(), huge.upper(), "Z"]
        assert [len(batch) for batch in search.batches] == [1, 2, 1, 1, 1]

    with_worker(test)


def test_a_job_fails_alone_and_those_in_its_batch_are_answered() -> None:
    async def test(worker: Worker, search: Search) -> None:
        good, bad = Job(["good"], search, kind=None), Job(["bad"], search, kind=None)
        begin(worker, search, good, bad)
        assert await good.all() == ["GOOD"]
        with pytest.raises(ValueError, match="bad"):
            await bad.all()
        assert search.batches[1:] == [["good", "bad"], ["good"], ["bad"]]

    with_worker(test)


def test_a_job_whose_client_has_left_is_not_searched() -> None:
    async def test(worker: Worker, search: Search) -> None:
        gone, after = Job(["gone"] * 100, search, kind=None), Job(["after"], search, kind=None)
        waiting = asyncio.create_task(gone.all())
        worker.submit(gone)
        worker.submit(after)
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        search.go.set()
        await after.all()
        assert search.batches == [["first"], ["after"]]

    with_worker(test)


def test_the_first_answer_of_a_stream_comes_after_a_batch_of_one_and_then_they_grow() -> None:
    async def test(worker: Worker, search: Search) -> None:
        job = Job([f"s{n}" for n in range(20)], search, kind=None, grows=True)
        begin(worker, search, job)
        async with aclosing(job.in_order()) as answers:
            assert [answer async for answer in answers] == [f"S{n}" for n in range(20)]
        assert [len(batch) for batch in search.batches] == [1, 1, 2, 4, 8, 5]

    with_worker(test)


def test_a_closed_worker_answers_what_waits_and_takes_no_more() -> None:
    async def test(worker: Worker, search: Search) -> None:
        job = Job(["waiting"], search, kind=None)
        worker.submit(job)
        assert worker.backlog == 1
        worker.close()
        search.go.set()
        assert await job.all() == ["WAITING"]
        with pytest.raises(RuntimeError, match="closed"):
            worker.submit(Job(["late"], search, kind=None))

    with_worker(test)


def test_a_search_is_told_when_its_answers_are_no_longer_wanted() -> None:
    async def test(worker: Worker, search: Search) -> None:
        asked = threading.Event()

        def patient(sentences: Sequence[str], after_step: AfterStep) -> list[str]:
            asked.set()
            while True:
                after_step()
                time.sleep(0.001)

        gone, after = Job(["gone"], patient, kind="patient"), Job(["after"], search, kind=None)
        begin(worker, search, gone)
        waiting = asyncio.create_task(gone.all())
        await asyncio.to_thread(asked.wait, 10)
        waiting.cancel()
        worker.submit(after)
        assert await after.all() == ["AFTER"]

    with_worker(test)


class Stepping:
    """A search that computes for two milliseconds for each letter of its longest sentence, as long as not all has been
    seen that a test is for, and its finished batches."""

    def __init__(self) -> None:
        self.finished: list[list[str]] = []
        self.is_over = False

    def __call__(self, sentences: Sequence[str], after_step: AfterStep) -> list[str]:
        for _ in range(max(map(len, sentences))):
            end = time.thread_time() + 0.002
            while time.thread_time() < end and not self.is_over:
                pass
            after_step()
        self.finished.append(list(sentences))
        return [sentence.upper() for sentence in sentences]


LONG = "x" * 500
"""Takes a second."""


@pytest.mark.parametrize("is_long", [True, False])
def test_a_short_job_is_answered_between_two_steps_of_a_long_one(is_long: bool) -> None:
    steps = Stepping()

    async def test(worker: Worker, search: Search) -> None:
        long = [Job([LONG], steps, kind=object(), is_long=is_long) for _ in range(4)]
        begin(worker, search, *long)
        for number in range(3):
            await asyncio.sleep(0.05)
            job = Job([f"short {number}"], steps, kind="short")
            worker.submit(job)
            assert await job.all() == [f"SHORT {number}"]
        assert [LONG] not in steps.finished
        steps.is_over = True
        assert [await job.all() for job in long] == [[LONG.upper()]] * 4

    with_worker(test)


def test_a_long_job_that_looks_short_is_put_back_and_does_not_hold_those_in_its_batch() -> None:
    steps = Stepping()

    async def test(worker: Worker, search: Search) -> None:
        long, seeming = Job([LONG * 2], steps, kind=object(), is_long=True), Job([LONG], steps, kind="short")
        others = [Job([f"short {number}"], steps, kind="short") for number in range(3)]
        begin(worker, search, long, seeming, *others)
        assert [await job.all() for job in others] == [["SHORT 0"], ["SHORT 1"], ["SHORT 2"]]
        assert sorted(sentence for batch in steps.finished for sentence in batch) == ["short 0", "short 1", "short 2"]
        while not seeming.is_long:
            await asyncio.sleep(0.01)
        steps.is_over = True
        assert await long.all() and await seeming.all() == [LONG.upper()]
        assert (seeming.is_long, any(job.is_long for job in others)) == (True, False)
        assert steps.finished[-1] == [LONG]

    with_worker(test)


class Clock:
    """Stands for the thread's clock. Its searches take the seconds that they are told, in steps of a hundredth."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.finished: list[str] = []
        monkeypatch.setattr(batching, "time", SimpleNamespace(thread_time=lambda: self.now))

    def taking(self, seconds: float) -> Callable[[Sequence[str], AfterStep], list[str]]:
        def search(sentences: Sequence[str], after_step: AfterStep) -> list[str]:
            for _ in range(round(100 * seconds)):
                self.now += 0.01
                after_step()
            self.finished += sentences
            return list(sentences)

        return search


@pytest.mark.parametrize(
    ("number", "seconds", "is_long"), [(1, 0.5, False), (1, 0.7, True), (64, 4.4, False), (64, 4.6, True)]
)
def test_a_batch_may_take_longer_the_more_sentences_it_has(
    number: int, seconds: float, is_long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)

    async def test(worker: Worker, search: Search) -> None:
        jobs = [Job(["a sentence"], clock.taking(seconds), kind="short") for _ in range(number)]
        begin(worker, search, *jobs)
        for job in jobs:
            await job.all()
        assert {job.is_long for job in jobs} == {is_long}

    with_worker(test)


def test_a_stream_of_short_jobs_leaves_half_of_the_time_to_a_long_one(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)

    async def test(worker: Worker, search: Search) -> None:
        long = Job(["long"], clock.taking(1.2), kind="long", is_long=True)
        short = [Job([f"{number}"], clock.taking(0.3), kind=number) for number in range(20)]
        begin(worker, search, long, *short)
        assert await long.all() == ["long"]
        assert clock.finished[:5] == ["0", "1", "2", "3", "long"]

    with_worker(test)


def test_an_error_in_a_pause_ends_its_own_job_alone() -> None:
    steps = Stepping()

    def failing(sentences: Sequence[str], after_step: AfterStep) -> list[str]:
        after_step()
        raise ValueError("bad")

    async def test(worker: Worker, search: Search) -> None:
        long, bad = Job([LONG], steps, kind=object(), is_long=True), Job(["bad"], failing, kind="bad")
        begin(worker, search, long, bad)
        with pytest.raises(ValueError, match="bad"):
            await bad.all()
        steps.is_over = True
        assert await long.all() == [LONG.upper()]

    with_worker(test)


def test_a_stream_in_a_pause_keeps_its_order() -> None:
    steps = Stepping()

    async def test(worker: Worker, search: Search) -> None:
        long, stream = Job([LONG], steps, kind=object(), is_long=True), Job(list("abcdef"), steps, kind=1, grows=True)
        begin(worker, search, long, stream)
        assert await stream.all() == list("ABCDEF")
        steps.is_over = True
        assert await long.all() == [LONG.upper()]

    with_worker(test)


def test_memory_is_returned_once_when_nothing_has_come_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    returned: list[threading.Thread] = []
    monkeypatch.setattr(batching, "IDLE_SECONDS", 0.05)
    monkeypatch.setattr(batching, "return_memory_pages", lambda: returned.append(threading.current_thread()))

    async def test(worker: Worker, search: Search) -> None:
        search.go.set()
        await asyncio.sleep(0.3)
        assert returned.count(worker.thread) == 1
        await submitted(worker, search)
        await asyncio.sleep(0.3)
        assert returned.count(worker.thread) == 2

    async def submitted(worker: Worker, search: Search) -> None:
        job = Job(["a"], search, kind=None)
        worker.submit(job)
        await job.all()

    with_worker(test)


def test_sentences_of_very_different_size_do_not_share_a_batch_unless_one_job_has_them() -> None:
    async def test(worker: Worker, search: Search) -> None:
        large, small = "😀" * 100, "你好。"
        jobs = [Job(sentences, search, kind=None) for sentences in ([large], [small], [large], [small], [small, large])]
        begin(worker, search, *jobs)
        for job in jobs:
            await job.all()
        assert search.batches[1:] == [[large] * 2, [small, small, small, large]]

    with_worker(test)


def test_the_smallest_job_is_answered_first_in_a_pause_and_none_that_has_much_left() -> None:
    steps = Stepping()

    async def test(worker: Worker, search: Search) -> None:
        jobs = [Job([LONG * 2], steps, kind=object(), is_long=True), Job(["ab"] * 99, steps, kind="short")]
        jobs += [Job(["x" * 300], steps, kind=number) for number in range(3)]
        small = Job(["small"], steps, kind="short")
        begin(worker, search, *jobs, small)
        assert await small.all() == ["SMALL"] and steps.finished == [["small"]]
        steps.is_over = True
        for job in jobs:
            assert await job.all()

    with_worker(test)
