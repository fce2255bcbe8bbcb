"""Capacity is given in turn, and given back however the work in it ends."""

import asyncio

import pytest

from weft.serving.capacity import SMALL, Capacity

WHOLE = 64 * SMALL
LARGE, MIDDLE = WHOLE // 4, 2 * SMALL


def test_what_does_not_fit_waits_in_turn_and_large_texts_leave_capacity_to_others() -> None:
    order: list[str] = []

    async def work(capacity: Capacity, name: str, size: int, until: asyncio.Event) -> None:
        async with capacity.hold(size, 10):
            order.append(name)
            await until.wait()

    async def main() -> None:
        capacity, first, rest = Capacity(WHOLE), asyncio.Event(), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for name, size, until in (
                *(("a", LARGE, first), ("b", 9 * WHOLE, rest), ("c", LARGE, rest)),  # a quarter each
                *(("waits", LARGE, rest), ("behind it", LARGE // 2, rest)),
                *(("middle", MIDDLE, rest), ("small", SMALL, rest)),
            ):
                group.create_task(work(capacity, name, size, until))
            await asyncio.sleep(0.01)
            assert order == ["a", "b", "c", "middle", "small"]
            first.set()
            await asyncio.sleep(0.01)
            assert order[5:] == []  # the middle one has taken of what the large leave
            rest.set()
        assert order[5:] == ["waits", "behind it"] and capacity.left == capacity.size

    asyncio.run(main())


def test_capacity_is_released_after_an_error_and_after_a_timeout() -> None:
    async def main() -> None:
        capacity = Capacity(LARGE)
        with pytest.raises(ZeroDivisionError):
            async with capacity.hold(LARGE, 1), capacity.hold(LARGE, 1), capacity.hold(LARGE, 1):
                with pytest.raises(TimeoutError):
                    async with capacity.hold(LARGE, 0.01):
                        raise AssertionError("there was no room")
                raise ZeroDivisionError
        assert capacity.left == capacity.size

    asyncio.run(main())
