"""Read connections: one for fast reads on the event loop, others with threads for reads that may take long."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from sampan.storage.sqlite.driver import Driver
from sampan.storage.sqlite.reader import Reader
from sampan.storage.sqlite.worker import Worker

T = TypeVar("T")


class Readers:
    def __init__(self, *, driver: Driver, path: Path, threads: int) -> None:
        self._connections = ExitStack()
        self._free: SimpleQueue[Reader] = SimpleQueue()
        with ExitStack() as opened:
            for _ in range(threads):
                self._free.put(opened.enter_context(Reader(driver=driver, path=path)))
            self.quick = opened.enter_context(Reader(driver=driver, path=path))
            """The connection for reads of single keys at the current revision, on the event loop."""
            self._connections = opened.pop_all()
        self._worker = Worker(name=f"sqlite reader {path.name}", threads=threads)

    async def read(self, read: Callable[[Reader], T]) -> T:
        """Run a read in a thread."""
        return await self._worker.call(lambda: self._read(read))

    async def close(self) -> None:
        await self._worker.stop()
        self._connections.close()

    def _read(self, read: Callable[[Reader], T]) -> T:
        reader = self._free.get()
        try:
            return read(reader)
        finally:
            self._free.put(reader)
