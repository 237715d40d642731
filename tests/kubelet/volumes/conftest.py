"""A check of each test: no mount may be left below its directory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sampan.runtimes import kernel


@pytest.fixture(autouse=True)
def _nothing_left_mounted(tmp_path: Path) -> Iterator[None]:
    yield
    left = kernel.mounts_below(tmp_path)
    for path in left:
        kernel.unmount(path)
    assert left == []
