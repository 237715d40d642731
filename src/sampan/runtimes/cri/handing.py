"""Load images into containerd. CRI has no call for that, but containerd serves its own API on the same socket."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
from grpc import aio

from sampan.api import times
from sampan.machinery.clock import Clock
from sampan.machinery.proto import Schema
from sampan.runtimes.contract import RuntimeFailure
from sampan.runtimes.images.bundles import Bundle, Part

_NAMESPACE = "k8s.io"
"""The containerd namespace of everything created through CRI."""
_MARK, _HANDED = "sampan.dev/handed", "true"
_TIMEOUT_S = 60.0
_LEASE_S = 3600.0
_REASON = "ErrImagePull"
_PATHS = {
    "CreateImage": "/containerd.services.images.v1.Images/Create",
    "UpdateImage": "/containerd.services.images.v1.Images/Update",
    "ListImages": "/containerd.services.images.v1.Images/List",
    "CreateLease": "/containerd.services.leases.v1.Leases/Create",
    "DeleteLease": "/containerd.services.leases.v1.Leases/Delete",
    "Write": "/containerd.services.content.v1.Content/Write",
}


@cache
def _schema() -> Schema:
    return Schema.read(Path(__file__).with_name("containerd.proto"))


class ImageHand:
    """Loads images into containerd through a gRPC channel."""

    def __init__(self, *, channel: aio.Channel, clock: Clock) -> None:
        self._channel, self._clock = channel, clock

    async def give(self, bundle: Bundle) -> None:
        """Load an image. A lease protects its content from garbage collection until the image that refers to it
        exists."""
        lease = f"sampan-{secrets.token_hex(8)}"
        until = {"containerd.io/gc.expire": times.format_time(self._clock.now() + _LEASE_S)}
        try:
            await self._call("CreateLease", _schema().CreateLeaseRequest(id=lease, labels=until))
            try:
                for part, labels in _ordered(bundle):
                    await self._write(part, labels, lease)
                await self._name(bundle, lease)
            finally:
                await self._call("DeleteLease", _schema().DeleteLeaseRequest(id=lease))
        except aio.AioRpcError as error:
            raise RuntimeFailure(_REASON, f"{bundle.name} cannot be given to containerd: {error.details()}") from None

    async def given(self) -> list[str]:
        """Return the names of all images that Sampan has loaded, from any node."""
        request = _schema().ListImagesRequest(filters=[f'labels."{_MARK}"=={_HANDED}'])
        try:
            answer = await self._call("ListImages", request, _schema().ListImagesResponse)
        except aio.AioRpcError as error:
            raise RuntimeFailure("ImageError", f"containerd does not tell its images: {error.details()}") from None
        return [image.name for image in answer.images]

    async def _name(self, bundle: Bundle, lease: str) -> None:
        whole, cd = bundle.manifest, _schema()
        target = cd.Descriptor(media_type=whole.media_type, digest=whole.digest, size=whole.size)
        request = cd.ImageRequest(image=cd.Image(name=bundle.name, labels={_MARK: _HANDED}, target=target))
        try:
            await self._call("CreateImage", request, lease=lease)
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
                raise
            await self._call("UpdateImage", request, lease=lease)

    async def _write(self, part: Part, labels: dict[str, str], lease: str) -> None:
        """Write content unless containerd has it already."""
        cd, ref = _schema(), f"sampan-{part.digest}"
        call = self._channel.stream_stream(
            _PATHS["Write"],
            request_serializer=cd.WriteContentRequest.SerializeToString,
            response_deserializer=cd.WriteContentResponse.FromString,
        )(metadata=_metadata(lease), timeout=_TIMEOUT_S)
        common = {"ref": ref, "total": part.size, "expected": part.digest}
        try:
            await call.write(cd.WriteContentRequest(action="STAT", **common))
            offset = await _offset(call)
            for data in _rest(part, offset):
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

    async def _call(self, name: str, request: Any, answer: Any = None, *, lease: str = "") -> Any:
        call = self._channel.unary_unary(
            _PATHS[name],
            request_serializer=type(request).SerializeToString,
            response_deserializer=(answer or _schema().Empty).FromString,
        )
        return await call(request, timeout=_TIMEOUT_S, metadata=_metadata(lease))


async def _offset(call: Any) -> int:
    answer = await call.read()
    if answer is aio.EOF:
        raise aio.AioRpcError(await call.code(), aio.Metadata(), await call.trailing_metadata(), await call.details())
    return int(answer.offset)


def _metadata(lease: str) -> tuple[tuple[str, str], ...]:
    own = (("containerd-namespace", _NAMESPACE),)
    return (*own, ("containerd-lease", lease)) if lease else own


def _ordered(bundle: Bundle) -> Iterator[tuple[Part, dict[str, str]]]:
    """Yield the parts of an image with their labels. The manifest comes last; its labels refer to the other parts, so
    that garbage collection keeps them as long as the manifest."""
    parts = [bundle.config, *bundle.layers]
    yield from ((part, {}) for part in parts)
    marks = {f"containerd.io/gc.ref.content.{number}": part.digest for number, part in enumerate(parts)}
    yield bundle.manifest, marks


def _rest(part: Part, offset: int) -> Iterator[bytes]:
    """Yield the data after `offset`, which may be above 0 if an earlier upload was interrupted."""
    skipped = 0
    for data in part.pieces():
        if skipped + len(data) > offset:
            yield data[max(offset - skipped, 0) :]
        skipped += len(data)
