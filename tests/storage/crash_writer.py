"""Writes to a store until it is killed, and prints each acknowledged write.

The script reads a line `PATH ROUND` for each round, forks a child that writes (so that Python starts only once), prints
`pid N`, and prints `dead` when the child has ended.
"""

import asyncio
import itertools
import os
import sys
from pathlib import Path

from sampan.host.clock import RealClock
from sampan.storage.sqlite import SqliteBackend

WRITERS = 12


async def write_forever(path: Path, round_number: int) -> None:
    async with SqliteBackend(path=path, clock=RealClock()) as backend, asyncio.TaskGroup() as tasks:
        for writer in range(WRITERS):
            tasks.create_task(_write(backend, round_number, writer))
        if round_number % 2:
            tasks.create_task(_compact(backend))


async def _write(backend: SqliteBackend, round_number: int, writer: int) -> None:
    key = f"/registry/pods/{round_number}/{writer}"
    for step in itertools.count():
        if step % 7 == 6:
            _report(await backend.delete(key), key, "-")
        else:
            value = f"{round_number}.{writer}.{step}."
            _report(await backend.put(key, pad(value)), key, value)


async def _compact(backend: SqliteBackend) -> None:
    while True:
        await backend.compact(await backend.current_revision())
        await asyncio.sleep(0)


def pad(value: str) -> bytes:
    """Repeat a value, so that sizes vary from some bytes to some pages."""
    return value.encode() * (1 + len(value) * 37 % 400)


def _report(revision: int, key: str, value: str) -> None:
    os.write(1, f"{revision} {key} {value}\n".encode())  # a line is written whole or not at all


def main() -> None:
    for line in sys.stdin:
        path, round_number = line.split()
        if (pid := os.fork()) == 0:
            try:
                asyncio.run(write_forever(Path(path), int(round_number)))
            finally:
                os._exit(1)
        os.write(1, f"pid {pid}\n".encode())
        os.waitpid(pid, 0)
        os.write(1, b"dead\n")


if __name__ == "__main__":
    main()
