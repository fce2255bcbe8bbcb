"""Room is given in turn, and given back however the work in it ends."""

import asyncio

import pytest

from weft.serving.room import SMALL, Room

WHOLE = 64 * SMALL
LARGE, MIDDLE = WHOLE // 4, 2 * SMALL


def test_what_does_not_fit_waits_in_turn_and_the_large_leave_room_to_others() -> None:
    order: list[str] = []

    async def work(room: Room, name: str, size: int, until: asyncio.Event) -> None:
        async with room.taken(size, 10):
            order.append(name)
            await until.wait()

    async def main() -> None:
        room, first, rest = Room(WHOLE), asyncio.Event(), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for name, size, until in (
                *(("a", LARGE, first), ("b", 9 * WHOLE, rest), ("c", LARGE, rest)),  # a quarter each
                *(("waits", LARGE, rest), ("behind it", LARGE // 2, rest)),
                *(("middle", MIDDLE, rest), ("small", SMALL, rest)),
            ):
                group.create_task(work(room, name, size, until))
            await asyncio.sleep(0.01)
            assert order == ["a", "b", "c", "middle", "small"]
            first.set()
            await asyncio.sleep(0.01)
            assert order[5:] == []  # the middle one has taken of what the large leave
            rest.set()
        assert order[5:] == ["waits", "behind it"] and room.left == room.size

    asyncio.run(main())


def test_room_comes_back_from_who_fails_and_from_who_waited_too_long() -> None:
    async def main() -> None:
        room = Room(LARGE)
        with pytest.raises(ZeroDivisionError):
            async with room.taken(LARGE, 1), room.taken(LARGE, 1), room.taken(LARGE, 1):
                with pytest.raises(TimeoutError):
                    async with room.taken(LARGE, 0.01):
                        raise AssertionError("there was no room")
                raise ZeroDivisionError
        assert room.left == room.size

    asyncio.run(main())
