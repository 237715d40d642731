"""The images of a CRI runtime."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sampan.runtimes.contract import ImageInfo, RuntimeFailure
from sampan.runtimes.cri import seen
from sampan.runtimes.cri.client import CriClient, CriError
from sampan.runtimes.cri.handing import ImageHand
from sampan.runtimes.engine_images import PULL_FAILED, EngineImages
from sampan.runtimes.images import pause
from sampan.runtimes.images.bundles import Bundle
from sampan.runtimes.images.credentials import Credentials
from sampan.runtimes.images.reference import Reference, parse_reference
from sampan.runtimes.images.supply import Supply

_REASONS = ("RegistryUnavailable", "SignatureValidationFailed")
"""Prefixes of the runtime's error messages that become the reason of the container's waiting state."""
_LOOKS, _LOOK_AGAIN_S = 200, 0.025


class CriImages(EngineImages):
    """Manages images. `hand` loads images into the runtime; it is None for a runtime that only pulls images."""

    def __init__(self, *, client: CriClient, supply: Supply, hand: ImageHand | None) -> None:
        super().__init__(supply=supply)
        self._client, self._hand = client, hand

    async def _find(self, name: str) -> ImageInfo | None:
        cri = self._client.schema
        request = cri.ImageStatusRequest(image=cri.ImageSpec(image=name))
        answer = await self._client.images("ImageStatus", request, reason="ImageInspectError")
        return seen.image(answer.image) if answer.HasField("image") else None

    async def list(self) -> Sequence[ImageInfo]:
        return [seen.image(image) for image in (await self._client.images("ListImages")).images]

    async def remove(self, name: str) -> None:
        cri = self._client.schema
        await self._client.images("RemoveImage", cri.RemoveImageRequest(image=cri.ImageSpec(image=name)))

    async def _fetch(self, wanted: Reference, who: Credentials | None) -> str:
        cri = self._client.schema
        request = cri.PullImageRequest(image=cri.ImageSpec(image=str(wanted)))
        if who is not None:
            request.auth.username, request.auth.password = who.username, who.password
            request.auth.identity_token, request.auth.registry_token = who.identity_token, who.registry_token
        try:
            answer = await self._client.images("PullImage", request, reason=PULL_FAILED, timeout_s=None)
        except CriError as error:
            raise _failure(error) from None
        return str(answer.image_ref)

    # -- images supplied by Sampan -----------------------------------------------------------------------------------

    async def give_pause(self, name: str) -> bool:
        """Load the built-in pause image under the name of the runtime's sandbox image. Return whether that is
        possible."""
        if self._hand is None or not pause.is_made_here():
            return False
        return await self._give(pause.bundle(str(parse_reference(name)))) is not None

    async def _give(self, bundle: Bundle) -> ImageInfo | None:
        """Load an image, and wait until the runtime reports it, which takes a moment."""
        if self._hand is None:
            text = f"{bundle.name} is Sampan's, and this runtime takes images only from registries"
            raise RuntimeFailure(PULL_FAILED, text)
        await self._hand.give(bundle)
        for _ in range(_LOOKS):
            image = await self._find(bundle.name)
            if image is not None and image.id == bundle.config.digest:
                return image
            await asyncio.sleep(_LOOK_AGAIN_S)
        raise RuntimeFailure(PULL_FAILED, f"{bundle.name} was given to the runtime, and is not there")

    async def take_back(self) -> None:
        """Remove all images that Sampan has loaded, so that they are not mistaken for those of a registry with the same
        name."""
        for name in await self._hand.given() if self._hand is not None else ():
            await self.remove(name)


def _failure(fault: CriError) -> RuntimeFailure:
    reason = next((word for word in _REASONS if fault.details.startswith(word)), PULL_FAILED)
    return RuntimeFailure(reason, fault.message)
