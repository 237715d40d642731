"""An event loop in a thread of its own, for tests that have none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, TypeVar

from sampan.machinery.control_loop.supervision import describe_failure
from sampan.machinery.errors import ApiError

__tracebackhide__ = True  # pytest leaves the frames of this module out of tracebacks

T = TypeVar("T")

_START_TIMEOUT_S = 60
_STOP_TIMEOUT_S = 30
_FAILURE_TIMEOUT_S = 5
"""How long a cancelled call waits for the loop to end, in order to name the reason."""


class LoopThread:
    """Holds a context manager open in a thread: `start` enters it, `stop` leaves it, `run` uses its loop in between.

    The same task enters and leaves, as task groups require.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._ended: Future[None] = Future()

    def start(self, context: AbstractAsyncContextManager[Any]) -> None:
        """Start the thread, and return once the context manager `context` is entered. Raise the exception if entering
        it fails."""
        entered: Future[None] = Future()
        self._thread = threading.Thread(target=self._main, args=(context, entered), name=self._name, daemon=True)
        self._thread.start()
        try:
            entered.result(_START_TIMEOUT_S)
        except BaseException:
            self._join()
            raise

    def is_current(self) -> bool:
        """Whether the caller runs in this thread."""
        return threading.current_thread() is self._thread

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        if self._loop is None or self._ended.done():
            work.close()
            raise self._stopped_error()
        if self.is_current():
            work.close()
            raise RuntimeError("this is the loop's own thread: await the coroutine instead")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout_s)
        except ApiError as error:
            # An answer of the API. How the server in this process came to it would hide the line of the test.
            raise error.with_traceback(None) from None
        except CancelledError as cancelled:  # the loop is ending, or the coroutine was cancelled on its own
            with suppress(TimeoutError):
                self._ended.exception(_FAILURE_TIMEOUT_S)
            if self._ended.done():
                raise self._stopped_error() from cancelled
            raise
        except BaseException:
            future.cancel()
            raise

    def _stopped_error(self) -> RuntimeError:
        """Return an error that names the reason why the loop has ended, if it has one."""
        failure = self._ended.exception() if self._ended.done() else None
        text = "the loop is not running"
        return RuntimeError(f"{text}: {describe_failure(failure)}" if failure is not None else text)

    def stop(self) -> None:
        """Leave the context manager and stop the thread. Raise any exception that occurred since it was entered."""
        self._join()
        self._ended.result(0)

    def _join(self) -> None:
        if self._loop is not None and not self._ended.done():
            with suppress(RuntimeError):  # the loop has just stopped
                self._loop.call_soon_threadsafe(self._stopping.set)
        if self._thread is not None:
            self._thread.join(_STOP_TIMEOUT_S)
            if self._thread.is_alive():
                raise RuntimeError(f"{self._name} did not stop within {_STOP_TIMEOUT_S} s")

    def _main(self, context: AbstractAsyncContextManager[Any], entered: Future[None]) -> None:
        try:
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                runner.run(self._hold(context, entered))
        except BaseException as error:
            if not entered.done():
                entered.set_exception(error)
            self._ended.set_exception(error)
        else:
            self._ended.set_result(None)

    async def _hold(self, context: AbstractAsyncContextManager[Any], entered: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        async with context:
            entered.set_result(None)
            await self._stopping.wait()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the factory of the event loop that `sampan up` uses."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
