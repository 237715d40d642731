"""Background tasks of an API server."""

import asyncio

from sampan.apiserver.server import _BackgroundTasks


async def test_background_tasks_started_during_shutdown_are_cancelled() -> None:
    async with asyncio.timeout(60), _BackgroundTasks() as background:

        async def start_another_task() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                background.create_task(asyncio.Event().wait())

        background.create_task(start_another_task())
        await asyncio.sleep(0)
