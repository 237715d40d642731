import asyncio

from sampan.host.keyed_locks import KeyedLocks


async def test_holders_of_a_key_take_turns_and_unused_locks_are_removed() -> None:
    locks, order = KeyedLocks(), list[str]()

    async def hold(name: str) -> None:
        async with locks.held("key"):
            order.append(f"{name} in")
            await asyncio.sleep(0)
            order.append(f"{name} out")

    tasks = [asyncio.create_task(hold(name)) for name in "abc"]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order == ["a in", "a out", "c in", "c out"]
    assert len(locks) == 0
