"""The images of a CRI runtime."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

from sampan.runtimes.contract import ImageInfo, RuntimeFailure
from sampan.runtimes.cri import messages
from sampan.runtimes.cri.client import CriClient, CriError
from sampan.runtimes.cri.containerd_images import ContainerdImages
from sampan.runtimes.engine import PULL_FAILED, EngineImages
from sampan.runtimes.images import pause
from sampan.runtimes.images.bundles import ImageBundle
from sampan.runtimes.images.credentials import RegistryCredentials
from sampan.runtimes.images.manifests import BadImage
from sampan.runtimes.images.reference import ImageReference, parse_reference
from sampan.runtimes.images.supply import ImageSupply

_REASONS = ("RegistryUnavailable", "SignatureValidationFailed")
"""Prefixes of the runtime's error messages that become the reason of the container's waiting state."""
_POLLS, _POLL_S = 200, 0.025


class CriImages(EngineImages):
    """Manages images. `containerd` loads images into containerd; it is None for another runtime, which only pulls
    images."""

    def __init__(self, *, client: CriClient, supply: ImageSupply, containerd: ContainerdImages | None) -> None:
        super().__init__(supply=supply)
        self._client, self._containerd = client, containerd

    async def _find(self, name: str) -> ImageInfo | None:
        cri = self._client.schema
        request = cri.ImageStatusRequest(image=cri.ImageSpec(image=name))
        response = await self._client.images("ImageStatus", request, reason="ImageInspectError")
        return messages.image(response.image) if response.HasField("image") else None

    async def list(self) -> Sequence[ImageInfo]:
        return [messages.image(image) for image in (await self._client.images("ListImages")).images]

    async def layers(self, name: str) -> Sequence[Path]:
        """Return the layers of an image. An image that Sampan has loaded may not be unpacked in containerd; then the
        layers in Sampan's own store are returned."""
        cri = self._client.schema
        request = cri.ImageStatusRequest(image=cri.ImageSpec(image=name), verbose=True)
        info = (await self._client.images("ImageStatus", request, reason="ImageInspectError")).info
        layers = None
        if self._containerd is not None and (chain_id := json.loads(info.get("info") or "{}").get("chainID")):
            layers = await self._containerd.layers(chain_id)
        try:
            layers = layers or await asyncio.to_thread(self._supply.layers, name)
        except BadImage as error:
            raise RuntimeFailure("CreateContainerError", f"failed to mount image volume: {error}") from None
        if not layers:
            raise RuntimeFailure("CreateContainerError", f"failed to mount image volume: {name!r} is not unpacked")
        return layers

    async def remove(self, name: str) -> None:
        cri = self._client.schema
        await self._client.images("RemoveImage", cri.RemoveImageRequest(image=cri.ImageSpec(image=name)))

    async def _pull(self, reference: ImageReference, who: RegistryCredentials | None) -> str:
        cri = self._client.schema
        request = cri.PullImageRequest(image=cri.ImageSpec(image=str(reference)))
        if who is not None:
            request.auth.username, request.auth.password = who.username, who.password
            request.auth.identity_token, request.auth.registry_token = who.identity_token, who.registry_token
        try:
            response = await self._client.images("PullImage", request, reason=PULL_FAILED, timeout_s=None)
        except CriError as error:
            raise _failure(error) from None
        return str(response.image_ref)

    # -- images supplied by Sampan -----------------------------------------------------------------------------------

    async def import_pause(self, name: str) -> bool:
        """Load the built-in pause image under the name of the runtime's sandbox image. Return whether that is
        possible."""
        if self._containerd is None or not pause.is_built_in():
            return False
        return await self._load(pause.bundle(str(parse_reference(name)))) is not None

    async def _load(self, bundle: ImageBundle) -> ImageInfo | None:
        """Load an image, and wait until the runtime reports it, which it does after a short delay."""
        if self._containerd is None:
            text = f"{bundle.name} is an image of Sampan, and this runtime can only pull images from registries"
            raise RuntimeFailure(PULL_FAILED, text)
        await self._containerd.import_bundle(bundle)
        for _ in range(_POLLS):
            image = await self._find(bundle.name)
            if image is not None and image.id == bundle.config.digest:
                return image
            await asyncio.sleep(_POLL_S)
        raise RuntimeFailure(PULL_FAILED, f"{bundle.name} was imported, but the runtime does not list it")

    async def remove_imported(self) -> None:
        """Remove all images that Sampan has loaded, so that they are not mistaken for images of a registry with the
        same names."""
        for name in await self._containerd.list_imported_names() if self._containerd is not None else ():
            await self.remove(name)


def _failure(error: CriError) -> RuntimeFailure:
    reason = next((word for word in _REASONS if error.details.startswith(word)), PULL_FAILED)
    return RuntimeFailure(reason, error.message)
