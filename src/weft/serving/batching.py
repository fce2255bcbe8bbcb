"""Batches of the sentences of all requests: each model has one thread, which takes what waits as soon as it is free.

A job is the work of one request: sentences to search with the same settings, or one call that needs the model to
itself. The thread takes a sentence of each waiting job in turn until the batch is full, so that a long document delays
others by one batch at most. A batch is never delayed to become larger. Answers do not depend on the batch
(decoding/search.py). Knows no HTTP.
"""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from weft.runtime import return_memory_pages, use_chosen_threads

Answer = TypeVar("Answer")

LARGEST_BATCH = 64
"""Sentences of a batch."""
LARGEST_BATCH_CHARACTERS = 4096
"""Characters of a batch; a longer sentence is a batch of its own. A model translates as many in about a second on two
cores, which is also how long a request can occupy it after its client has left."""


class Abandoned(Exception):
    """Raised by a search whose answers are no longer wanted."""


@dataclass(eq=False)
class Job(Generic[Answer]):
    """The work of one request. It belongs to the event loop, except for `taken`, which the thread changes."""

    sentences: Sequence[str]
    search: Callable[[Sequence[str], Callable[[], bool]], list[Answer]]
    """Answers for sentences; jobs of equal `kind` may share a call. Its second argument tells whether the answers are
    still wanted; it may raise Abandoned if not."""
    kind: object
    most_at_once: int = LARGEST_BATCH
    """Sentences of this job in one batch."""
    grows: bool = False
    """Whether its share of a batch starts at one sentence and doubles, so that the first answer comes soon."""
    answers: list[Answer | None] = field(init=False)
    error: BaseException | None = field(default=None, init=False)
    taken: int = field(default=0, init=False)
    """Sentences that the thread has taken, in order."""
    cancelled: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.answers = [None] * len(self.sentences)
        self.loop = asyncio.get_running_loop()
        self.changed = asyncio.Event()
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
            self.observe(sum(len(indices) for _, indices in batch))
            answer(batch)
        return_memory_pages()  # those of the model, which is no longer referenced

    def _next_batch(self) -> "Batch":
        """Wait for the next batch; empty after `close`."""
        with self.condition:
            while True:
                self.waiting = deque(job for job in self.waiting if job.has_left)
                if self.waiting:
                    return self._take()
                if self.closing:
                    return []
                self.condition.wait()

    def _take(self) -> "Batch":
        """A sentence in turn of each job of the first one's kind; these jobs move to the end of the queue."""
        first = self.waiting[0]
        served = [job for job in self.waiting if job.kind == first.kind]
        taken: dict[Job[Any], list[int]] = {job: [] for job in served}
        sentences = characters = 0
        turns = deque(served)
        while turns and sentences < LARGEST_BATCH:
            job = turns.popleft()
            length = len(job.sentences[job.taken])
            if sentences and characters + length > LARGEST_BATCH_CHARACTERS:
                break
            taken[job].append(job.taken)
            job.taken += 1
            sentences, characters = sentences + 1, characters + length
            if job.has_left and len(taken[job]) < job.most_at_once:
                turns.append(job)
        for job in served:
            if job.grows and taken[job]:
                job.most_at_once = min(2 * job.most_at_once, LARGEST_BATCH)
        others = [job for job in self.waiting if job.kind != first.kind]
        unserved = [job for job in served if not taken[job]]
        self.waiting = deque([*others, *unserved, *(job for job in served if taken[job])])
        return [(job, indices) for job, indices in taken.items() if indices]


Batch = list[tuple[Job[Any], list[int]]]
"""Jobs of one kind with the indices of their taken sentences."""


def answer(batch: Batch) -> None:
    """Search the batch; if that fails, each job alone, so that only the job at fault fails."""
    sentences = [job.sentences[index] for job, indices in batch for index in indices]
    try:
        answers = iter(batch[0][0].search(sentences, lambda: any(job.is_wanted for job, _ in batch)))
        done = [(job, indices, [next(answers) for _ in indices], None) for job, indices in batch]
    except Abandoned:
        return
    except Exception as error:
        if len(batch) > 1:
            for one in batch:
                answer([one])
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
