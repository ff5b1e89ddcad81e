"""Pacing: everything comes, in order, and others get their turn."""

import asyncio

from cairn.api.server.yielding import in_turns


def test_others_get_their_turn_between_items() -> None:
    async def main() -> None:
        seen: list[object] = []

        async def other() -> None:
            for _ in range(10):
                seen.append("other")
                await asyncio.sleep(0)

        waiting = asyncio.create_task(other())
        async for item in in_turns(range(5), at_once=2):
            seen.append(item)
        assert seen == [0, 1, "other", 2, 3, "other", 4]
        await waiting

    asyncio.run(main())
