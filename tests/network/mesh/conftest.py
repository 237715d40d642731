"""Fixtures of tests of the mesh between machines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.network.machines import Machines


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    directory = tmp_path / "namespaces"
    directory.mkdir()
    machines = Machines(directory)
    try:
        yield machines
    finally:
        machines.close()
