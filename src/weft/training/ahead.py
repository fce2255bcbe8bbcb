"""Work of the processor beside that of the step: the next batch is made while the last one is used."""

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")


def made_ahead(items: Iterator[Item]) -> Generator[Item, None, None]:
    """The same items in the same order, each asked for in a thread as soon as the one before it is handed out.

    What making an item raises is raised where it would have been handed out. The thread ends with the iterator, also
    where that is left early; one item may then have been made in vain.
    """
    end = object()
    with ThreadPoolExecutor(1, "weft batches") as thread:
        coming = thread.submit(next, items, end)
        while (item := coming.result()) is not end:
            coming = thread.submit(next, items, end)
            yield item  # pyright: ignore[reportReturnType]
