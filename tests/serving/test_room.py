"""Room is given in turn, and given back however the work in it ends."""

import asyncio

import pytest

from weft.serving.room import SMALL, Room

WHOLE = 64 * SMALL
LARGE, MIDDLE = WHOLE // 2, 2 * SMALL


def test_what_does_not_fit_waits_in_turn_and_the_large_leave_room_to_others() -> None:
    order: list[str] = []

    async def work(room: Room, name: str, size: int, until: asyncio.Event) -> None:
        async with room.taken(size, 10):
            order.append(name)
            await until.wait()

    async def main() -> None:
        room, first, rest = Room(WHOLE), asyncio.Event(), asyncio.Event()
        rest.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(work(room, "first", LARGE, first))
            await asyncio.sleep(0)
            group.create_task(work(room, "huge", 9 * WHOLE, rest))  # takes all that the large may
            group.create_task(work(room, "third", WHOLE // 8, rest))  # would fit beside the first
            group.create_task(work(room, "middle", MIDDLE, rest))
            group.create_task(work(room, "small", SMALL, rest))
            await asyncio.sleep(0.01)
            assert order == ["first", "middle", "small"]
            first.set()
        assert order == ["first", "middle", "small", "huge", "third"] and room.left == room.size

    asyncio.run(main())


def test_room_comes_back_from_who_fails_and_from_who_waited_too_long() -> None:
    async def main() -> None:
        room = Room(WHOLE)
        with pytest.raises(ZeroDivisionError):
            async with room.taken(WHOLE, 1):
                with pytest.raises(TimeoutError):
                    async with room.taken(WHOLE, 0.01):
                        raise AssertionError("there was no room")
                raise ZeroDivisionError
        async with room.taken(WHOLE, 1):
            assert room.left == WHOLE // 4

    asyncio.run(main())
