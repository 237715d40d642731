"""Load images into containerd, and locate the layers of unpacked images. CRI has no calls for that, but containerd
serves its own API on the same socket."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
from grpc import aio

from sampan.api.values import times
from sampan.host.clock import Clock
from sampan.machinery.proto import ProtoSchema
from sampan.runtimes.contract import RuntimeFailure
from sampan.runtimes.images.bundles import ImageBlob, ImageBundle

_NAMESPACE = "k8s.io"
"""The containerd namespace of everything created through CRI."""
_MARK, _IMPORTED = "sampan.dev/handed", "true"
_TIMEOUT_S = 60.0
_LEASE_S = 3600.0
_REASON = "ErrImagePull"
_PATHS = {
    "CreateImage": "/containerd.services.images.v1.Images/Create",
    "UpdateImage": "/containerd.services.images.v1.Images/Update",
    "ListImages": "/containerd.services.images.v1.Images/List",
    "CreateLease": "/containerd.services.leases.v1.Leases/Create",
    "DeleteLease": "/containerd.services.leases.v1.Leases/Delete",
    "ViewSnapshot": "/containerd.services.snapshots.v1.Snapshots/View",
    "RemoveSnapshot": "/containerd.services.snapshots.v1.Snapshots/Remove",
    "Write": "/containerd.services.content.v1.Content/Write",
}


@cache
def _schema() -> ProtoSchema:
    return ProtoSchema.read(Path(__file__).with_name("containerd.proto"))


class ContainerdImages:
    """The images of containerd, through a gRPC channel. `snapshotter` is the plugin that unpacks them."""

    def __init__(self, *, channel: aio.Channel, clock: Clock, snapshotter: str) -> None:
        self._channel, self._clock, self._snapshotter = channel, clock, snapshotter
        self._import_lock = asyncio.Lock()
        """Containerd rejects a second writer of the same content, as when the first pods of a node start together."""

    async def import_bundle(self, bundle: ImageBundle) -> None:
        """Load an image. A lease protects its content from garbage collection until the image that refers to it
        exists."""
        lease = f"sampan-{secrets.token_hex(8)}"
        until = {"containerd.io/gc.expire": times.format_time(self._clock.now() + _LEASE_S)}
        try:
            async with self._import_lock:
                await self._call("CreateLease", _schema().CreateLeaseRequest(id=lease, labels=until))
                try:
                    for blob, labels in _iter_blobs(bundle):
                        await self._write(blob, labels, lease)
                    await self._create_image(bundle, lease)
                finally:
                    await self._call("DeleteLease", _schema().DeleteLeaseRequest(id=lease))
        except aio.AioRpcError as error:
            raise RuntimeFailure(
                _REASON, f"{bundle.name} cannot be imported into containerd: {error.details()}"
            ) from None

    async def list_imported_names(self) -> list[str]:
        """Return the names of all images that Sampan has loaded, from any node."""
        request = _schema().ListImagesRequest(filters=[f'labels."{_MARK}"=={_IMPORTED}'])
        try:
            response = await self._call("ListImages", request, _schema().ListImagesResponse)
        except aio.AioRpcError as error:
            raise RuntimeFailure("ImageError", f"cannot list the images of containerd: {error.details()}") from None
        return [image.name for image in response.images]

    async def layers(self, chain_id: str) -> Sequence[Path] | None:
        """Return the directories with the layers of an image, the lowest first; None if the image is not unpacked."""
        cd, name = _schema(), {"snapshotter": self._snapshotter, "key": f"sampan-{secrets.token_hex(8)}"}
        view = None
        try:
            view = await self._call("ViewSnapshot", cd.ViewSnapshotRequest(parent=chain_id, **name), cd.SnapshotMounts)
            await self._call("RemoveSnapshot", cd.RemoveSnapshotRequest(**name))
        except aio.AioRpcError as error:
            # The garbage collection of containerd may remove the view first, as nothing refers to it.
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise RuntimeFailure(
                    "CreateContainerError", f"cannot read the layers of an image of containerd: {error.details()}"
                ) from None
        return layers_of(view.mounts) if view is not None else None

    async def _create_image(self, bundle: ImageBundle, lease: str) -> None:
        whole, cd = bundle.manifest, _schema()
        target = cd.Descriptor(media_type=whole.media_type, digest=whole.digest, size=whole.size)
        request = cd.ImageRequest(image=cd.Image(name=bundle.name, labels={_MARK: _IMPORTED}, target=target))
        try:
            await self._call("CreateImage", request, lease=lease)
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
                raise
            await self._call("UpdateImage", request, lease=lease)

    async def _write(self, blob: ImageBlob, labels: dict[str, str], lease: str) -> None:
        """Write content unless containerd has it already."""
        cd, ref = _schema(), f"sampan-{blob.digest}"
        call = self._channel.stream_stream(
            _PATHS["Write"],
            request_serializer=cd.WriteContentRequest.SerializeToString,
            response_deserializer=cd.WriteContentResponse.FromString,
        )(metadata=_metadata(lease), timeout=_TIMEOUT_S)
        common = {"ref": ref, "total": blob.size, "expected": blob.digest}
        try:
            await call.write(cd.WriteContentRequest(action="STAT", **common))
            offset = await _offset(call)
            for data in _read_from(blob, offset):
                await call.write(cd.WriteContentRequest(action="WRITE", offset=offset, data=data, ref=ref))
                offset = await _offset(call)
            await call.write(cd.WriteContentRequest(action="COMMIT", offset=offset, labels=labels, **common))
            await _offset(call)
            await call.done_writing()
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
                raise
        finally:
            call.cancel()

    async def _call(self, name: str, request: Any, response: Any = None, *, lease: str = "") -> Any:
        call = self._channel.unary_unary(
            _PATHS[name],
            request_serializer=type(request).SerializeToString,
            response_deserializer=(response or _schema().Empty).FromString,
        )
        return await call(request, timeout=_TIMEOUT_S, metadata=_metadata(lease))


def layers_of(mounts: Sequence[Any]) -> Sequence[Path]:
    """Return the directories that a read-only snapshot consists of, the lowest first."""
    if len(mounts) == 1 and mounts[0].type == "bind":
        return [Path(mounts[0].source)]
    options = mounts[0].options if len(mounts) == 1 and mounts[0].type == "overlay" else ()
    lower = next((text.removeprefix("lowerdir=") for text in options if text.startswith("lowerdir=")), "")
    if not lower:
        message = "image volumes need containerd 2.1 or the snapshotter overlayfs"
        raise RuntimeFailure("CreateContainerError", f"failed to mount image volume: {message}")
    return [Path(directory) for directory in reversed(lower.split(":"))]


async def _offset(call: Any) -> int:
    response = await call.read()
    if response is aio.EOF:
        raise aio.AioRpcError(await call.code(), aio.Metadata(), await call.trailing_metadata(), await call.details())
    return int(response.offset)


def _metadata(lease: str) -> tuple[tuple[str, str], ...]:
    own = (("containerd-namespace", _NAMESPACE),)
    return (*own, ("containerd-lease", lease)) if lease else own


def _iter_blobs(bundle: ImageBundle) -> Iterator[tuple[ImageBlob, dict[str, str]]]:
    """Yield the parts of an image with their labels. The manifest comes last; its labels refer to the other blobs, so
    that garbage collection keeps them as long as the manifest."""
    blobs = [bundle.config, *bundle.layers]
    yield from ((blob, {}) for blob in blobs)
    marks = {f"containerd.io/gc.ref.content.{number}": blob.digest for number, blob in enumerate(blobs)}
    yield bundle.manifest, marks


def _read_from(blob: ImageBlob, offset: int) -> Iterator[bytes]:
    """Yield the data after `offset`, which may be above 0 if an earlier upload was interrupted."""
    skipped = 0
    for data in blob.pieces():
        if skipped + len(data) > offset:
            yield data[max(offset - skipped, 0) :]
        skipped += len(data)
