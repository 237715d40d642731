"""Writes to a store until it is killed, and tells on standard output what was acknowledged.

Run as a script it reads one line for each round, `PATH ROUND`, forks a child that does the writing (so that Python
starts only once), prints `pid N`, and when that child is dead `dead`.
"""

import asyncio
import itertools
import os
import sys
from pathlib import Path

from sampan.machinery.clock import RealClock
from sampan.storage.sqlite import SqliteBackend

WRITERS = 12


async def write_for_ever(path: Path, turn: int) -> None:
    async with SqliteBackend(path=path, clock=RealClock()) as backend, asyncio.TaskGroup() as tasks:
        for writer in range(WRITERS):
            tasks.create_task(_write(backend, turn, writer))
        if turn % 2:
            tasks.create_task(_compact(backend))


async def _write(backend: SqliteBackend, turn: int, writer: int) -> None:
    key = f"/registry/pods/{turn}/{writer}"
    for step in itertools.count():
        if step % 7 == 6:
            _tell(await backend.delete(key), key, "-")
        else:
            value = f"{turn}.{writer}.{step}."
            _tell(await backend.put(key, pad(value)), key, value)


async def _compact(backend: SqliteBackend) -> None:
    while True:
        await backend.compact(await backend.current_revision())
        await asyncio.sleep(0)


def pad(value: str) -> bytes:
    """Values of very different sizes, up to some pages."""
    return value.encode() * (1 + len(value) * 37 % 400)


def _tell(revision: int, key: str, value: str) -> None:
    os.write(1, f"{revision} {key} {value}\n".encode())  # a line is written whole or not at all


def main() -> None:
    for line in sys.stdin:
        path, turn = line.split()
        if (pid := os.fork()) == 0:
            try:
                asyncio.run(write_for_ever(Path(path), int(turn)))
            finally:
                os._exit(1)
        os.write(1, f"pid {pid}\n".encode())
        os.waitpid(pid, 0)
        os.write(1, b"dead\n")


if __name__ == "__main__":
    main()
