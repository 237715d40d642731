"""What the machine still has of a pod: looked for by the pod's own group, as others run containers here too."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from pathlib import Path

from sampan.runtimes import kernel
from sampan.testing.runtime_conformance.bench import cgroup_parent

_ROOT = Path("/sys/fs/cgroup")


def of_pod(uid: str, directory: Path) -> Collection[str]:
    """Groups, processes in them, and mounts below the runtime's directory that name the pod. The pod's own group, which
    the kubelet would remove, is removed here."""
    leftovers = [str(path) for path in kernel.mounts_below(directory) if uid in str(path)]
    for place in _groups(uid):
        leftovers += [str(path) for path in place.iterdir() if path.is_dir()]
        leftovers += [f"process {pid} in {place}" for pid in (place / "cgroup.procs").read_text().split()]
        with contextlib.suppress(OSError):
            place.rmdir()
    for parent in _ROOT.glob(f"*/{Path(cgroup_parent(uid)).parts[1]}"):
        with contextlib.suppress(OSError):  # other tests have theirs in it
            parent.rmdir()
    return leftovers


def _groups(uid: str) -> Sequence[Path]:
    roots = [_ROOT, *(path for path in _ROOT.iterdir() if path.is_dir())]
    places = [root / cgroup_parent(uid).strip("/") for root in roots]
    return [place for place in places if place.is_dir()]


__all__ = ["of_pod"]
