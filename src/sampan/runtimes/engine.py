"""What runtimes share that drive an engine of somebody else's (containerd, Docker), which keeps pods itself: the table
of what it was last seen to have, and the order of what is done to containers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeVar

from sampan.api.types.core_v1 import Container, Pod
from sampan.machinery.clock import Clock
from sampan.runtimes import contract, labels
from sampan.runtimes.background import Background
from sampan.runtimes.config import ContainerConfig, SandboxConfig
from sampan.runtimes.contract import ImageInfo, PodReport, Pulled, RuntimeFailure, Told
from sampan.runtimes.cpu_rates import CpuRates
from sampan.runtimes.engine_images import EngineImages
from sampan.runtimes.images.credentials import Keyring
from sampan.runtimes.images.supply import Supply
from sampan.runtimes.pod_table import PodTable, SeenContainer, SeenPod
from sampan.runtimes.sandbox_configs import SandboxConfigs

log = logging.getLogger(__name__)

Self = TypeVar("Self", bound="EngineRuntime")


class EngineView(Protocol):
    """Looking at what the engine has."""

    async def refresh(self, uid: str) -> None:
        """One pod, with which something was done."""


class EngineRuntime(ABC):
    """`folder` is the node's own; by it and the `node`'s name is known what is this node's among what others have in
    the same engine."""

    name: str
    version: str
    _images: EngineImages
    _view: EngineView

    def __init__(self, *, folder: Path, node: str, clock: Clock, told: Told, supply: Supply | None) -> None:
        self._folder, self._node, self._clock, self._told = folder, labels.mark(node, folder), clock, told
        self._supply = supply or Supply(folder=folder)
        self._configs = SandboxConfigs(folder / "sandboxes")
        self._rates = CpuRates()
        self._background = Background()
        self._table = PodTable("")
        self._stops: dict[str, asyncio.Task[None]] = {}
        """By the containers' ids."""

    async def __aenter__(self: Self) -> Self:
        try:
            await self._open()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Containers go on."""
        await self._background.end()
        await self._close()

    async def shut_down(self) -> None:
        """End everything, for a node that is given up."""
        for uid in self._table.uids():
            await self.remove_pod(uid)

    # -- what each engine does its own way ---------------------------------------------------------------------------

    @abstractmethod
    async def _open(self) -> None:
        """Connect to the engine, look at what it has of the node, and follow what changes."""

    @abstractmethod
    async def _close(self) -> None: ...

    @abstractmethod
    async def remove_pod(self, uid: str) -> None: ...

    @abstractmethod
    async def _create(self, sandbox: str, config: ContainerConfig, around: SandboxConfig) -> str:
        """A container in the sandbox of that id; its own id."""

    @abstractmethod
    async def _start(self, id: str) -> None: ...

    @abstractmethod
    async def _end(self, id: str, grace_s: float) -> None:
        """Ask the container to end, kill it after the grace, and wait; one that is gone is no fault."""

    @abstractmethod
    async def _remove(self, id: str) -> None:
        """What is gone need not be removed."""

    # -- what there is -----------------------------------------------------------------------------------------------

    def adopt(self, pod: Pod) -> None:
        return  # what there is was found at the start

    def known_pods(self) -> Sequence[str]:
        return self._table.uids()

    def pod_report(self, pod: Pod) -> PodReport:
        return self._table.report(pod)

    def log_file(self, pod: Pod, container: str, *, previous: bool = False) -> Path | None:
        return self._table.log_file(pod.metadata.uid, container, previous=previous)

    # -- images ------------------------------------------------------------------------------------------------------

    async def image(self, name: str) -> ImageInfo | None:
        return await self._images.get(name)

    async def images(self) -> Sequence[ImageInfo]:
        return await self._images.list()

    async def pull_image(self, pod: Pod, container: Container, keyring: Keyring | None) -> Pulled:
        return await self._images.pull(container.image, keyring)

    async def remove_image(self, name: str) -> None:
        await self._images.remove(name)

    # -- containers --------------------------------------------------------------------------------------------------

    async def start_container(
        self, pod: Pod, container: Container, attempt: int, config: ContainerConfig | None
    ) -> str:
        assert config is not None
        uid = pod.metadata.uid
        sandbox = self._table.ready_sandbox(uid, "CreateContainerError")
        await self._clear_way(uid, config.name, attempt)
        if added := await asyncio.to_thread(self._supply.mounts, config.image):
            config = replace(config, mounts=[*added, *config.mounts])
        id = await self._create(sandbox.id, config, self._configs.get(uid))
        try:
            await self._start(id)
        except RuntimeFailure:
            await self._remove(id)
            raise
        finally:
            await self._view.refresh(uid)
        return f"{self.name}://{id}"

    async def _clear_way(self, uid: str, name: str, attempt: int) -> None:
        """A container that was made, and not started before the kubelet ended, has the name that is wanted."""
        found = self._table.get(uid) or SeenPod()
        for each in found.runs_of(name):
            if each.attempt == attempt and each.state == contract.CREATED:
                await self._remove(each.id)

    async def stop_container(self, pod: Pod, name: str, grace_s: float) -> None:
        found = self._table.get(pod.metadata.uid)
        runs = found.runs_of(name) if found is not None else []
        if not runs or runs[0].is_over:
            return
        id = runs[0].id
        if (task := self._stops.pop(id, None)) is not None:
            task.cancel()
        self._stops[id] = self._background.begin(self._stop(pod.metadata.uid, id, grace_s))

    async def _stop(self, uid: str, id: str, grace_s: float) -> None:
        try:
            await self._end(id, grace_s)
        except RuntimeFailure as fault:
            log.warning("cannot stop container %s: %s", id, fault)
        self._stops.pop(id, None)
        with contextlib.suppress(RuntimeFailure):
            await self._view.refresh(uid)

    async def remove_container(self, pod: Pod, id: str) -> None:
        uid = pod.metadata.uid
        found = self._table.find(uid, id)
        if found is not None:
            await self._forget(found)
            await self._view.refresh(uid)

    async def _forget(self, container: SeenContainer) -> None:
        await self._remove(container.id)
        self._let_go(container)

    def _let_go(self, container: SeenContainer) -> None:
        """Of what is kept of one that the engine has no more."""
        self._rates.forget(container.id)
        if container.log_path:
            Path(container.log_path).unlink(missing_ok=True)


__all__ = ["EngineRuntime", "EngineView"]
