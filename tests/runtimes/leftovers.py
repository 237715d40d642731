"""Leftovers of a pod on the machine, found by its own cgroup, because other programs run containers too."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from pathlib import Path

from sampan.runtimes import kernel
from sampan.testing.runtime_conformance.bench import cgroup_parent

_ROOT = Path("/sys/fs/cgroup")


def find_leftovers(uid: str, directory: Path) -> Collection[str]:
    """Return cgroups and processes below the cgroup of the pod, and mounts below the runtime's directory that name the
    pod. The cgroup of the pod, which the kubelet would remove, is removed here."""
    leftovers = [str(path) for path in kernel.mounts_below(directory) if uid in str(path)]
    for cgroup in _pod_cgroups(uid):
        leftovers += [str(path) for path in cgroup.iterdir() if path.is_dir()]
        leftovers += [f"process {pid} in {cgroup}" for pid in (cgroup / "cgroup.procs").read_text().split()]
        with contextlib.suppress(OSError):
            cgroup.rmdir()
    for parent in _ROOT.glob(f"*/{Path(cgroup_parent(uid)).parts[1]}"):
        with contextlib.suppress(OSError):  # other tests may have cgroups in it
            parent.rmdir()
    return leftovers


def _pod_cgroups(uid: str) -> Sequence[Path]:
    roots = [_ROOT, *(path for path in _ROOT.iterdir() if path.is_dir())]
    cgroups = [root / cgroup_parent(uid).strip("/") for root in roots]
    return [cgroup for cgroup in cgroups if cgroup.is_dir()]


__all__ = ["find_leftovers"]
