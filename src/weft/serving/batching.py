"""Batches of the sentences of all requests: each model has one thread, which takes what waits as soon as it is free.

A job is the work of one request: sentences to search with the same settings, or one call that needs the model to
itself. The thread takes a sentence of each waiting job in turn until the batch is full. A batch is never delayed to
become larger. Answers do not depend on the batch (decoding/search.py). Jobs whose sentences differ much in size do not
share one.

The length of a text does not tell how long its search takes: thirty emoji may take a hundred times as long as thirty
letters. So time is measured. A batch that takes long is paused between two steps of its model, and jobs that are not
known to be long are answered there. One that takes long there as well is put back and becomes long. Knows no HTTP.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from weft.runtime import return_memory_pages, use_chosen_threads

Answer = TypeVar("Answer")

LARGEST_BATCH = 64
"""Sentences of a batch."""
LARGEST_BATCH_CHARACTERS = 4096
"""Characters of a batch; a longer sentence is a batch of its own."""
LARGEST_BETWEEN, LARGEST_BETWEEN_CHARACTERS = 16, 512
"""Sentences, and their characters, that are answered during a pause."""
LONG_SECONDS, LONG_SECONDS_EACH = 0.5, 1 / 16
"""A batch that takes longer than the first, and the second for each of its sentences, is long. Seconds of the thread's
own CPU time: on a busy machine everything takes longer."""
SIMILAR_RATIO, SIMILAR_EXTRA = 2, 60
"""Sentences of several jobs share a batch if the longer one has at most so many times the bytes of the shorter one, and
some more."""
TURN_SECONDS = 0.05
"""The least time that a long batch continues between two pauses. It is at least that of a pause that has answered
something, so that a stream of short jobs takes half of the time."""
IDLE_SECONDS = 1.0
"""After this time without work, free memory is returned to the operating system."""

AfterStep = Callable[[], None]
"""Called by a search after each step of the model. It may answer other jobs, or raise Abandoned or Overdue."""


class Abandoned(Exception):
    """Raised by a search whose answers are no longer wanted."""


class Overdue(Exception):
    """Raised by a search during a pause that takes long."""


@dataclass(eq=False)
class Job(Generic[Answer]):
    """The work of one request. It belongs to the event loop, except for `taken`, which the thread changes."""

    sentences: Sequence[str]
    search: Callable[[Sequence[str], AfterStep], list[Answer]]
    """Answers for sentences; jobs of equal `kind` may share a call."""
    kind: object
    is_long: bool = False
    """Whether its search is known to take long; the thread sets it too."""
    most_at_once: int = LARGEST_BATCH
    """Sentences of this job in one batch."""
    grows: bool = False
    """Whether its share of a batch starts at one sentence and doubles, so that the first answer comes soon."""
    answers: list[Answer | None] = field(init=False)
    error: BaseException | None = field(default=None, init=False)
    taken: int = field(default=0, init=False)
    """Sentences that the thread has taken, in order."""
    cancelled: bool = field(default=False, init=False)
    was_overdue: bool = field(default=False, init=False)
    """Whether it was part of a batch that was overdue; it is searched alone in the next pause, to see if it is long."""

    def __post_init__(self) -> None:
        self.answers = [None] * len(self.sentences)
        self.loop = asyncio.get_running_loop()
        self.changed = asyncio.Event()
        self.is_long = self.is_long or not self.may_be_short
        if self.grows:
            self.most_at_once = 1

    async def in_order(self) -> AsyncGenerator[Answer, None]:
        """Yields the answers in order, each as soon as it is there. Raises what the search raised.

        The job is cancelled if the caller stops before the end.
        """
        try:
            for index in range(len(self.sentences)):
                while (answer := self.answers[index]) is None:
                    if self.error is not None:
                        raise self.error
                    self.changed.clear()
                    await self.changed.wait()
                yield answer
        finally:
            self.cancelled = True

    async def all(self) -> list[Answer]:
        try:
            return [answer async for answer in self.in_order()]
        finally:
            self.cancelled = True

    @property
    def is_wanted(self) -> bool:
        return not self.cancelled and self.error is None

    @property
    def has_left(self) -> bool:
        return self.is_wanted and self.taken < len(self.sentences)

    @property
    def bytes_left(self) -> int:
        """Size of the sentences that the thread has not taken, in UTF-8."""
        return sum(len(sentence.encode()) for sentence in self.sentences[self.taken :])

    @property
    def may_be_short(self) -> bool:
        left = self.sentences[self.taken : self.taken + LARGEST_BETWEEN + 1]
        is_small = len(left) <= LARGEST_BETWEEN and sum(map(len, left)) <= LARGEST_BETWEEN_CHARACTERS
        return is_small and not self.is_long

    def may_share(self, other: "Job[Any]") -> bool:
        """Whether its next sentence may be in a batch with another's: the answers of a batch come when its longest
        search ends. Sizes are in bytes, since a character that the vocabulary lacks is spelled in bytes."""
        if self is other:
            return True
        small, large = sorted(len(job.sentences[job.taken].encode()) for job in (self, other))
        is_similar = large <= SIMILAR_RATIO * small + SIMILAR_EXTRA
        return self.kind == other.kind and self.is_long == other.is_long and is_similar


class Worker:
    """The thread of one model."""

    def __init__(self, name: str, observe: Callable[[int], None] = lambda sentences: None) -> None:
        """`observe` is called with the size of each batch, in the thread."""
        self.observe = observe
        self.waiting: deque[Job[Any]] = deque()
        self.condition = threading.Condition()
        self.closing = False
        self.thread = threading.Thread(target=self._work, name=f"weft {name}", daemon=True)
        self.thread.start()

    def submit(self, job: Job[Any]) -> None:
        with self.condition:
            if self.closing:
                raise RuntimeError("the worker is closed")
            self.waiting.append(job)
            self.condition.notify()

    def close(self) -> None:
        """Take no more jobs; the thread ends when the waiting ones are answered."""
        with self.condition:
            self.closing = True
            self.condition.notify()

    @property
    def backlog(self) -> int:
        """Sentences that no batch has taken."""
        with self.condition:
            return sum(len(job.sentences) - job.taken for job in self.waiting if job.is_wanted)

    def _work(self) -> None:
        use_chosen_threads()
        while batch := self._next_batch():
            self._answer(batch)
            del batch  # its jobs hold the model, which may be replaced while this thread waits
        return_memory_pages()  # those of the model, which is no longer referenced

    def _next_batch(self) -> "Batch":
        """Wait for the next batch; empty after `close`."""
        is_idle = False
        while True:
            with self.condition:
                self._forget_done()
                if self.waiting:
                    first = self.waiting[0]
                    together = [job for job in self.waiting if job.may_share(first)]
                    return self._take(together, LARGEST_BATCH, LARGEST_BATCH_CHARACTERS)
                if self.closing:
                    return []
                if self.condition.wait(None if is_idle else IDLE_SECONDS):
                    continue
            is_idle = True
            return_memory_pages()

    def _answer(self, batch: "Batch") -> None:
        """Answer a batch, pausing for others if it takes long."""
        self.observe(size_of(batch))
        most_seconds = seconds_until_long(batch)
        began = paused = time.thread_time()
        turn = TURN_SECONDS

        def after_step() -> None:
            nonlocal began, paused, turn
            check_wanted(batch)
            now = time.thread_time()
            if now - began > most_seconds:
                for job, _ in batch:
                    job.is_long = True
            if now - paused > turn and any(job.is_long for job, _ in batch):
                has_answered = self._pause()
                paused = time.thread_time()
                turn = max(TURN_SECONDS, paused - now) if has_answered else TURN_SECONDS
                began += paused - now

        answer(batch, after_step)

    def _pause(self) -> bool:
        """Answer jobs that are not known to be long, or find that one of them is; returns whether any was answered."""
        with self.condition:
            self._forget_done()
            short = [job for job in self.waiting if job.may_be_short]
            short.sort(key=lambda job: (job.was_overdue, job.bytes_left))
            if short:
                short = [job for job in short if job.may_share(short[0]) and not job.was_overdue] or short[:1]
            batch = self._take(short, LARGEST_BETWEEN, LARGEST_BETWEEN_CHARACTERS) if short else []
        if not batch:
            return False
        self.observe(size_of(batch))
        most_seconds = seconds_until_long(batch)
        began = time.thread_time()

        def after_step() -> None:
            check_wanted(batch)
            if time.thread_time() - began > most_seconds:
                raise Overdue

        try:
            answer(batch, after_step)
        except Overdue:
            with self.condition:
                for job, indices in batch:
                    job.taken -= len(indices)
                    job.was_overdue, job.is_long = True, len(batch) == 1
                    if job not in self.waiting:
                        self.waiting.append(job)
            return False
        return True

    def _forget_done(self) -> None:
        self.waiting = deque(job for job in self.waiting if job.has_left)

    def _take(self, served: Sequence[Job[Any]], most: int, most_characters: int) -> "Batch":
        """A sentence in turn of each of these jobs; they move to the end of the queue."""
        taken: dict[Job[Any], list[int]] = {job: [] for job in served}
        sentences = characters = 0
        turns = deque(served)
        while turns and sentences < most:
            job = turns.popleft()
            length = len(job.sentences[job.taken])
            if sentences and characters + length > most_characters:
                break
            taken[job].append(job.taken)
            job.taken += 1
            sentences, characters = sentences + 1, characters + length
            if job.has_left and len(taken[job]) < job.most_at_once:
                turns.append(job)
        for job in served:
            if job.grows and taken[job]:
                job.most_at_once = min(2 * job.most_at_once, LARGEST_BATCH)
        others = [job for job in self.waiting if not taken.get(job)]
        self.waiting = deque([*others, *(job for job in served if taken[job])])
        return [(job, indices) for job, indices in taken.items() if indices]


Batch = list[tuple[Job[Any], list[int]]]
"""Jobs of one kind with the indices of their taken sentences."""


def size_of(batch: Batch) -> int:
    """In sentences."""
    return sum(len(indices) for _, indices in batch)


def seconds_until_long(batch: Batch) -> float:
    return LONG_SECONDS + LONG_SECONDS_EACH * size_of(batch)


def check_wanted(batch: Batch) -> None:
    if not any(job.is_wanted for job, _ in batch):
        raise Abandoned


def answer(batch: Batch, after_step: AfterStep) -> None:
    """Search the batch; if that fails, each job alone, so that only the job at fault fails. Raises Overdue."""
    sentences = [job.sentences[index] for job, indices in batch for index in indices]
    try:
        answers = iter(batch[0][0].search(sentences, after_step))
        done = [(job, indices, [next(answers) for _ in indices], None) for job, indices in batch]
    except Abandoned:
        return
    except Overdue:
        raise
    except Exception as error:
        if len(batch) > 1:
            for one in batch:
                answer([one], after_step)
            return
        done = [(*batch[0], [], error)]
    for job, indices, of_job, error in done:
        deliver(job, indices, of_job, error)


def deliver(job: Job[Answer], indices: Sequence[int], answers: Sequence[Answer], error: Exception | None) -> None:
    """Hand answers to the event loop of the job, unless it is closed."""

    def on_loop() -> None:
        for index, found in zip(indices, answers, strict=False):
            job.answers[index] = found
        job.error = job.error or error
        job.changed.set()

    if not job.loop.is_closed():
        job.loop.call_soon_threadsafe(on_loop)
