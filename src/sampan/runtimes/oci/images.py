"""The images of a node with Sampan's own image store, and the root file systems made from them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from sampan.runtimes.config import ContainerConfig
from sampan.runtimes.contract import ImageInfo, PullResult, RuntimeFailure
from sampan.runtimes.images import BadReference, ImageStore, ImageUnknown, StoredImage, host, parse_reference
from sampan.runtimes.images.credentials import Keyring
from sampan.runtimes.images.manifests import BadImage, RunConfig
from sampan.runtimes.images.mounts import mount_host, mount_image_volumes, mount_layers
from sampan.runtimes.images.pull import ImagePuller, PullFailed
from sampan.runtimes.images.supply import ImageSupply
from sampan.runtimes.records import ContainerRecord

_MAX_PARALLEL_UNPACKS = 2


class OciImages:
    def __init__(self, *, store: ImageStore, supply: ImageSupply, puller: ImagePuller | None) -> None:
        self._store, self._supply, self._puller = store, supply, puller
        self._unpacking = asyncio.Semaphore(_MAX_PARALLEL_UNPACKS)

    def get(self, name: str) -> ImageInfo | None:
        if host.is_host(name):
            return host.info()
        try:
            return _info(self._store.get(name))
        except ImageUnknown:
            return None

    def list(self) -> Sequence[ImageInfo]:
        return [host.info(), *(_info(image) for image in self._store.list())]

    async def pull(self, name: str, keyring: Keyring | None) -> PullResult:
        if host.is_host(name):
            return PullResult(host.ID)
        try:
            reference = parse_reference(name)
        except BadReference as error:
            raise RuntimeFailure("InvalidImageName", f"Failed to apply default image tag {name!r}: {error}") from None
        if self._puller is None:
            raise RuntimeFailure("ErrImagePull", f"{name}: pulling from registries is disabled")
        try:
            image, credentials = await self._puller.pull_with_keyring(reference, keyring or Keyring())
        except PullFailed as error:
            raise RuntimeFailure("ErrImagePull", f"failed to pull image {name!r}: {error}") from None
        return PullResult(image.reference, credentials)

    def pull_progress(self, name: str) -> tuple[int, int] | None:
        with contextlib.suppress(BadReference):
            return self._puller.progress(parse_reference(name)) if self._puller is not None else None
        return None

    async def remove(self, name: str, records: Iterable[ContainerRecord]) -> None:
        """Remove an image. Layers that the containers of these records use are kept without a name."""
        with contextlib.suppress(ImageUnknown):
            self._store.remove(name)
        used = [digest for record in records for digest in (record.image_digest, *record.volume_digests)]
        await asyncio.to_thread(self._store.prune, [digest for digest in used if digest])

    # -- root file systems -------------------------------------------------------------------------------------------

    def unpack_slot(self, config: ContainerConfig) -> AbstractAsyncContextManager[object]:
        """Return a context manager to hold while the container's images are mounted. It limits how many containers
        unpack layers at the same time, as a large layer takes minutes and the process has few threads. It is a no-op if
        all layers are unpacked already."""
        names = [config.image, *(mount.image for mount in config.mounts if mount.image)]
        return nullcontext() if all(self._is_unpacked(name) for name in names) else self._unpacking

    def _is_unpacked(self, name: str) -> bool:
        if host.is_host(name):
            return True
        try:
            return self._store.is_unpacked(self._store.get(name))
        except (ImageUnknown, BadImage):
            return True  # mount() raises the error

    def mount(self, record: ContainerRecord, config: ContainerConfig, directory: Path) -> tuple[RunConfig, Path]:
        """Mount the image's root file system, and return the image's run configuration and the mount point. The call
        blocks, so run it in a thread."""
        if host.is_host(config.image):
            return host.CONFIG.run, mount_host(self._supply.host(), directory)
        try:
            image = self._store.get(config.image_ref or config.image)
        except ImageUnknown:
            image = self._store.get(config.image)
        record.image_digest = image.digest
        return image.config.run, mount_layers(self._store.lower_layers(image), directory)

    def mount_volumes(self, record: ContainerRecord, config: ContainerConfig, directory: Path) -> ContainerConfig:
        """Return the configuration with image volumes replaced by bind mounts. The call blocks, so run it in a
        thread."""
        if not any(mount.image for mount in config.mounts):
            return config

        def layers(name: str) -> Sequence[Path]:
            if host.is_host(name):
                raise RuntimeFailure("CreateContainerError", f"{name} cannot be a volume")
            image = self._store.get(name)
            record.volume_digests.append(image.digest)
            return self._store.lower_layers(image)

        return replace(config, mounts=mount_image_volumes(config.mounts, directory, layers))


def _info(image: StoredImage) -> ImageInfo:
    run = image.config.run
    return ImageInfo(
        id=image.id,
        names=image.names,
        digests=image.digests,
        size=image.size,
        user=run.user,
        volumes=list(run.volumes or ()),
    )
