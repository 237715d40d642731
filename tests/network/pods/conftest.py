"""What tests of the pod network share."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.network.pods.lab import Lab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """The machine's own links and mounts are the same afterwards."""
    folder = tmp_path / "spaces"
    folder.mkdir()
    before = socket.if_nameindex()
    made = Lab(folder)
    try:
        yield made
    finally:
        made.close()
    assert socket.if_nameindex() == before
    assert str(folder) not in Path("/proc/self/mountinfo").read_text()
