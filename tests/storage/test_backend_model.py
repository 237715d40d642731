"""Every store behaves like the model under random operations in random order."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from sampan.host.clock import VirtualClock
from sampan.storage.backend import Backend
from sampan.storage.memory import MemoryBackend
from sampan.storage.sqlite import SqliteBackend
from tests.storage.store_model import StoreMachine

IN_MEMORY = Path("/dev/shm")
"""A directory in which syncs cost nothing. Other tests check that syncs are made."""


class MemoryMachine(StoreMachine):
    def open(self) -> Backend:
        return MemoryBackend(clock=VirtualClock())


class SqliteMachine(StoreMachine):
    is_durable = True

    def __init__(self) -> None:
        self.directory = tempfile.TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None)
        super().__init__()

    def open(self) -> Backend:
        return SqliteBackend(path=Path(self.directory.name, "state.db"), clock=VirtualClock())

    def teardown(self) -> None:
        super().teardown()
        self.directory.cleanup()


@pytest.mark.parametrize("machine", [MemoryMachine, SqliteMachine])
def test_store_behaves_like_the_model(machine: type[StoreMachine]) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=60, stateful_step_count=30))
