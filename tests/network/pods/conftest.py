"""Fixtures of tests of the pod network."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.network.pods.lab import Lab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """Yield a lab, and check that none of its links and namespaces is left on the machine."""
    directory = tmp_path / "namespaces"
    directory.mkdir()
    lab = Lab(directory)
    try:
        yield lab
    finally:
        lab.close()
    assert not [name for _, name in socket.if_nameindex() if name.startswith(("tst", "up0", "up1"))]
    assert str(directory) not in Path("/proc/self/mountinfo").read_text()
