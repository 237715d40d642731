"""Groups of pods by systemd."""

from dataclasses import replace
from pathlib import Path

from sampan.runtimes.config import SandboxConfig
from sampan.runtimes.slices import cgroup_parent

_CONFIG = SandboxConfig(
    uid="1b-2c", namespace="n", name="p", log_directory=Path("/l"), cgroup_parent="/kubepods/pod1b-2c"
)


def test_a_slice_has_no_dash_of_the_pods_own() -> None:
    """A dash would put it into another."""
    assert cgroup_parent(_CONFIG, is_systemd=True) == "sampan-pod1b_2c.slice"
    assert cgroup_parent(_CONFIG, is_systemd=False) == "/kubepods/pod1b-2c"
    assert cgroup_parent(replace(_CONFIG, cgroup_parent=""), is_systemd=True) == ""
