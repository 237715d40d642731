"""Base class of runtimes that drive a container engine (containerd, Docker), which keeps the state of pods itself.

It holds a table with the last observed state of the engine, and the order of the steps that start, stop and remove
containers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeVar

from sampan.api.types.core_v1 import Container, Pod
from sampan.host.background_tasks import DetachedTasks
from sampan.host.clock import Clock
from sampan.host.linux import programs
from sampan.runtimes import contract, labels
from sampan.runtimes.config import ContainerConfig, SandboxConfig
from sampan.runtimes.contract import ImageInfo, PodCallback, PodReport, PullResult, RuntimeFailure
from sampan.runtimes.images import host
from sampan.runtimes.images.bundles import ImageBundle
from sampan.runtimes.images.credentials import Keyring, RegistryCredentials
from sampan.runtimes.images.mounts import EngineImageVolumes
from sampan.runtimes.images.reference import BadReference, ImageReference, parse_reference
from sampan.runtimes.images.supply import ImageSupply
from sampan.runtimes.pod_table import ObservedContainer, ObservedPod, PodTable
from sampan.runtimes.records import SandboxConfigs
from sampan.runtimes.usage import CpuRates

log = logging.getLogger(__name__)

Self = TypeVar("Self", bound="EngineRuntime")
_PREFIX = "sampan-pod"
_TIMEOUT_S = 60.0


def version_of(text: str) -> tuple[int, int]:
    """Return the major and minor version of an engine; (0, 0) if the text has none."""
    match = re.match(r"v?(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


class EngineView(Protocol):
    """Refreshes the table of pods from the state of the engine."""

    async def refresh(self, uid: str) -> None:
        """Read the state of one pod again, after an operation on it."""


class EngineRuntime(ABC):
    """A runtime that drives an engine. An engine may be shared with other users and nodes: the node name and
    `directory`, the directory of this node, mark the containers that belong to this node.
    """

    name: str
    version: str
    _images: EngineImages
    _view: EngineView

    def __init__(
        self, *, directory: Path, node: str, clock: Clock, on_pod_change: PodCallback, supply: ImageSupply | None
    ) -> None:
        self._directory, self._node, self._clock, self._on_pod_change = (
            directory,
            labels.make_node_mark(node, directory),
            clock,
            on_pod_change,
        )
        self._supply = supply or ImageSupply(directory=directory)
        self._configs = SandboxConfigs(directory / "sandboxes")
        self._has_image_volumes = True
        """Whether the engine can mount the files of an image; otherwise Sampan does."""
        self._image_volumes = EngineImageVolumes(directory / "image-volumes")
        self._rates = CpuRates()
        self._background = DetachedTasks("the container runtime")
        self._table = PodTable("")
        self._stops: dict[str, asyncio.Task[None]] = {}
        """Running stop operations by container id."""

    async def __aenter__(self: Self) -> Self:
        try:
            await self._open()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Disconnect from the engine. Containers keep running."""
        await self._background.stop()
        await self._close()

    async def shut_down(self) -> None:
        """Remove all pods, for a node that is removed from the cluster."""
        for uid in self._table.uids():
            await self.remove_pod(uid)

    # -- implemented by each engine ----------------------------------------------------------------------------------

    @abstractmethod
    async def _open(self) -> None:
        """Connect to the engine, read the state of this node's pods, and start watching for changes."""

    @abstractmethod
    async def _close(self) -> None: ...

    @abstractmethod
    async def remove_pod(self, uid: str) -> None: ...

    @abstractmethod
    async def _create(self, sandbox: str, config: ContainerConfig, sandbox_config: SandboxConfig) -> str:
        """Create a container in the sandbox with that id, and return the id of the container."""

    @abstractmethod
    async def _start(self, id: str) -> None: ...

    @abstractmethod
    async def _stop_and_wait(self, id: str, grace_s: float) -> None:
        """Send the stop signal to the container, kill it after the grace period, and wait until it has exited. Do
        nothing if the container does not exist."""

    @abstractmethod
    async def _remove(self, id: str) -> None:
        """Remove the container. Do nothing if it does not exist."""

    # -- state -------------------------------------------------------------------------------------------------------

    def adopt(self, pod: Pod) -> None:
        return  # existing pods were read from the engine by _open()

    def list_pod_uids(self) -> Sequence[str]:
        return self._table.uids()

    def pod_report(self, pod: Pod) -> PodReport:
        return self._table.report(pod)

    def log_file(self, pod: Pod, container: str, *, previous: bool = False) -> Path | None:
        return self._table.log_file(pod.metadata.uid, container, previous=previous)

    def log_text(self, pod: Pod, container: str) -> str | None:
        return None

    # -- images ------------------------------------------------------------------------------------------------------

    async def image(self, name: str) -> ImageInfo | None:
        return await self._images.get(name)

    async def images(self) -> Sequence[ImageInfo]:
        return await self._images.list()

    async def pull_image(self, pod: Pod, container: Container, keyring: Keyring | None) -> PullResult:
        return await self._images.pull(container.image, keyring)

    def pull_progress(self, name: str) -> tuple[int, int] | None:
        return None

    async def remove_image(self, name: str) -> None:
        await self._images.remove(name)

    # -- containers --------------------------------------------------------------------------------------------------

    async def start_container(
        self, pod: Pod, container: Container, attempt: int, config: ContainerConfig | None
    ) -> str:
        assert config is not None
        uid = pod.metadata.uid
        sandbox = self._table.ready_sandbox(uid, "CreateContainerError")
        await self._remove_unstarted(uid, config.name, attempt)
        if added := await asyncio.to_thread(self._supply.mounts, config.image):
            config = replace(config, mounts=[*added, *config.mounts])
        if not self._has_image_volumes:
            config = await self._mount_image_volumes(uid, config)
        id = await self._create(sandbox.id, config, self._configs.get(uid))
        try:
            await self._start(id)
        except RuntimeFailure:
            await self._view.refresh(uid)
            observed = self._table.find(uid, id)
            if observed is None or not observed.is_over:
                await self._remove(id)
            raise
        finally:
            await self._view.refresh(uid)
        return f"{self.name}://{id}"

    async def _mount_image_volumes(self, uid: str, config: ContainerConfig) -> ContainerConfig:
        layers = {mount.image: await self._images.layers(mount.image) for mount in config.mounts if mount.image}
        return await asyncio.to_thread(self._image_volumes.mount, uid, config, layers) if layers else config

    async def _remove_unstarted(self, uid: str, name: str, attempt: int) -> None:
        """Remove a container that an earlier kubelet created but did not start: it occupies the container name that is
        needed now."""
        pod = self._table.get(uid) or ObservedPod()
        for container in pod.runs_of(name):
            if container.attempt == attempt and container.state == contract.CREATED:
                await self._remove(container.id)

    async def stop_container(self, pod: Pod, name: str, grace_s: float) -> None:
        observed_pod = self._table.get(pod.metadata.uid)
        runs = observed_pod.runs_of(name) if observed_pod is not None else []
        if not runs or runs[0].is_over:
            return
        id = runs[0].id
        if (task := self._stops.pop(id, None)) is not None:
            task.cancel()
        self._stops[id] = self._background.start(self._stop(pod.metadata.uid, id, grace_s))

    async def _stop(self, uid: str, id: str, grace_s: float) -> None:
        try:
            await self._stop_and_wait(id, grace_s)
        except RuntimeFailure as error:
            log.warning("cannot stop container %s: %s", id, error)
        self._stops.pop(id, None)
        with contextlib.suppress(RuntimeFailure):
            await self._view.refresh(uid)

    async def remove_container(self, pod: Pod, id: str) -> None:
        uid = pod.metadata.uid
        container = self._table.find(uid, id)
        if container is not None:
            await self._forget(container)
            await self._view.refresh(uid)

    async def _forget(self, container: ObservedContainer) -> None:
        await self._remove(container.id)
        self._forget_files(container)

    def _forget_files(self, container: ObservedContainer) -> None:
        """Delete the CPU samples and the log of a container that the engine has removed."""
        self._rates.forget(container.id)
        if container.log_path:
            Path(container.log_path).unlink(missing_ok=True)


PULL_FAILED = "ErrImagePull"


class EngineImages(ABC):
    def __init__(self, *, supply: ImageSupply) -> None:
        self._supply = supply
        self._has_host = False
        """Whether this process has loaded the host image. It is loaded once per process, because the programs of the
        machine may have changed since an earlier kubelet loaded it."""

    @abstractmethod
    async def list(self) -> Sequence[ImageInfo]: ...

    @abstractmethod
    async def remove(self, name: str) -> None: ...

    @abstractmethod
    async def layers(self, name: str) -> Sequence[Path]:
        """Return the directories with the unpacked layers of an image, the lowest first."""

    @abstractmethod
    async def _find(self, name: str) -> ImageInfo | None:
        """Return the image if the engine has it."""

    @abstractmethod
    async def _load(self, bundle: ImageBundle) -> ImageInfo | None:
        """Load the bundle into the engine, and return the resulting image."""

    @abstractmethod
    async def _pull(self, reference: ImageReference, credentials: RegistryCredentials | None) -> str:
        """Have the engine pull the image from its registry, and return a reference to it."""

    async def get(self, name: str) -> ImageInfo | None:
        is_host = host.is_host(name)
        image = await self._find(name) if not is_host or self._has_host else None
        if image is None and (bundle := await asyncio.to_thread(self._supply.find, name)) is not None:
            image = await self._load(bundle)
            self._has_host = self._has_host or is_host
        return image

    async def pull(self, name: str, keyring: Keyring | None) -> PullResult:
        """Pull an image with each of the matching credentials in turn, and finally without credentials."""
        try:
            reference = parse_reference(name)
        except BadReference as error:
            raise RuntimeFailure("InvalidImageName", f"Failed to apply default image tag {name!r}: {error}") from None
        if host.is_host(name) and (own := await self.get(name)) is not None:
            return PullResult(own.id)
        for credentials in keyring.find(reference) if keyring is not None else ():
            with contextlib.suppress(RuntimeFailure):
                return PullResult(await self._pull(reference, credentials), credentials)
        return PullResult(await self._pull(reference, None))


def slice_of(uid: str) -> str:
    """Return the name of the pod's slice. Dashes are replaced, as a dash in a slice name denotes a parent slice."""
    return f"{_PREFIX}{uid.replace('-', '_')}.slice"


def cgroup_parent(config: SandboxConfig, *, is_systemd: bool) -> str:
    """Return the cgroup parent that the engine uses for the containers of the pod."""
    return slice_of(config.uid) if is_systemd and config.cgroup_parent else config.cgroup_parent


async def stop_slice(uid: str) -> None:
    """Stop the pod's slice. systemd creates a slice on first use and keeps it until it is stopped."""
    if (systemctl := shutil.which("systemctl")) is None:
        return
    with contextlib.suppress(OSError):  # includes TimeoutError, if systemd does not respond
        await programs.run(systemctl, "stop", slice_of(uid), timeout_s=_TIMEOUT_S)
