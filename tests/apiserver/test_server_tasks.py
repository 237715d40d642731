"""What a server runs in the background ends with it."""

import asyncio

from sampan.apiserver.server import _BackgroundTasks


async def test_also_what_is_begun_while_it_ends() -> None:
    async with asyncio.timeout(60), _BackgroundTasks() as background:

        async def begins_another() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                background.create_task(asyncio.Event().wait())

        background.create_task(begins_another())
        await asyncio.sleep(0)
