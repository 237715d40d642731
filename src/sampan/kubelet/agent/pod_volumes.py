"""What the steps of a pod need of its volumes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sampan.api.types.core_v1 import Pod
from sampan.kubelet.provision import AnyContainer
from sampan.runtimes.config import Mount


class PodVolumes(Protocol):
    """One node's. What it raises is RuntimeFailure."""

    async def mount(self, pod: Pod) -> None:
        """Until all of them are there; at once where they are already."""

    def mounts(self, pod: Pod, container: AnyContainer) -> Sequence[Mount]: ...

    async def unmount(self, pod: Pod) -> None: ...


class NoVolumes:
    async def mount(self, pod: Pod) -> None:
        return

    def mounts(self, pod: Pod, container: AnyContainer) -> Sequence[Mount]:
        return ()

    async def unmount(self, pod: Pod) -> None:
        return


__all__ = ["NoVolumes", "PodVolumes"]
