"""Prefetching: the next batch is made in a thread while the last one is used."""

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")


def made_ahead(items: Iterator[Item]) -> Generator[Item, None, None]:
    """Yield the items in order, making each in a thread as soon as the one before it is handed out.

    An error in making an item is raised where the item would have been handed out. The thread ends with the iterator,
    also if that is left early; one item may then have been made in vain.
    """
    end = object()
    with ThreadPoolExecutor(1, "weft batches") as thread:
        coming = thread.submit(next, items, end)
        while (item := coming.result()) is not end:
            coming = thread.submit(next, items, end)
            yield item  # pyright: ignore[reportReturnType]
