"""A request to the store that is shared by all concurrent callers."""

import asyncio
from collections.abc import Awaitable, Callable

from sampan.storage.backend import Closed

Revision = Callable[[], Awaitable[int]]


class SharedQuestion:
    """`await ask()` returns the response to a request that was sent after the call.

    Callers that arrive while a request is in flight wait for the next one: the store may have served the running
    request before a write that the caller already knows of. `run` has to be running.
    """

    def __init__(self, put: Revision) -> None:
        self._put = put
        self._next: asyncio.Future[int] | None = None
        self._asked = asyncio.Event()

    async def ask(self) -> int:
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
            self._asked.set()
        return await asyncio.shield(self._next)

    async def run(self) -> None:
        while True:
            await self._asked.wait()
            self._asked.clear()
            answer, self._next = self._next, None
            if answer is not None:
                await self._settle(answer)

    async def _settle(self, answer: asyncio.Future[int]) -> None:
        try:
            answer.set_result(await self._put())
        except asyncio.CancelledError:
            _fail(answer, Closed("the etcd backend was closed"))
            raise
        except Exception as error:
            _fail(answer, error)

    def close(self) -> None:
        if self._next is not None:
            _fail(self._next, Closed("the etcd backend was closed"))


def _fail(answer: asyncio.Future[int], error: Exception) -> None:
    answer.set_exception(error)
    answer.exception()  # mark as retrieved: all callers may have been cancelled
