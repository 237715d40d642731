"""Functions that all engines share: versions and cgroup parents."""

from dataclasses import replace
from pathlib import Path

import pytest

from sampan.runtimes.config import SandboxConfig
from sampan.runtimes.engine import cgroup_parent, version_of

_CONFIG = SandboxConfig(
    uid="1b-2c", namespace="n", name="p", log_directory=Path("/l"), cgroup_parent="/kubepods/pod1b-2c"
)


@pytest.mark.parametrize(
    ("text", "version"),
    [("1.6.20~ds1", (1, 6)), ("v2.1.0", (2, 1)), ("28.0.1", (28, 0)), ("20.10.24+dfsg1", (20, 10)), ("dev", (0, 0))],
)
def test_major_and_minor_version_of_an_engine(text: str, version: tuple[int, int]) -> None:
    assert version_of(text) == version


def test_systemd_slice_name_of_a_pod_escapes_dashes() -> None:
    """A dash in the name of a slice denotes its parent slice."""
    assert cgroup_parent(_CONFIG, is_systemd=True) == "sampan-pod1b_2c.slice"
    assert cgroup_parent(_CONFIG, is_systemd=False) == "/kubepods/pod1b-2c"
    assert cgroup_parent(replace(_CONFIG, cgroup_parent=""), is_systemd=True) == ""
