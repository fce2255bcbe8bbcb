"""Batches made ahead are the same batches, and nothing is left behind."""

import threading
from collections.abc import Iterator

import pytest

from weft.training.ahead import made_ahead


def test_the_items_are_the_same_in_the_same_order() -> None:
    assert list(made_ahead(iter(range(5)))) == [0, 1, 2, 3, 4]
    assert list(made_ahead(iter(()))) == []


def test_the_next_item_is_made_while_one_is_used() -> None:
    second_was_made = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        second_was_made.set()
        yield 2

    ahead = made_ahead(items())
    assert next(ahead) == 1
    assert second_was_made.wait(10)  # though nobody has asked for it
    assert next(ahead) == 2


def test_never_more_than_one_item_is_made_in_advance() -> None:
    made = []

    def items() -> Iterator[int]:
        for number in range(100):
            made.append(number)
            yield number

    ahead = made_ahead(items())
    for number in range(10):
        assert next(ahead) == number
    ahead.close()
    assert made == list(range(11))


def test_an_error_comes_where_the_item_would_have_come() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("the second one")

    ahead = made_ahead(items())
    assert next(ahead) == 1
    with pytest.raises(ValueError, match="the second one"):
        next(ahead)


def test_its_thread_ends_with_it_also_where_it_is_left_early() -> None:
    def names() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name.startswith("weft batches")]

    for _ in made_ahead(iter(range(5))):
        assert names()
        break
    assert not names()
