"""Images as a runtime that speaks CRI has them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sampan.runtimes.contract import ImageInfo, RuntimeFailure
from sampan.runtimes.cri import seen
from sampan.runtimes.cri.client import CriClient, CriError
from sampan.runtimes.cri.handing import ImageHand
from sampan.runtimes.images import host, pause
from sampan.runtimes.images.bundles import Bundle
from sampan.runtimes.images.credentials import Credentials, Keyring
from sampan.runtimes.images.reference import BadReference, parse_reference
from sampan.runtimes.images.supply import Supply

_REASONS = ("RegistryUnavailable", "SignatureValidationFailed")
"""Words with which a runtime begins to say why, and which the pod then shows."""
_LOOKS, _LOOK_AGAIN_S = 200, 0.025


class CriImages:
    """`hand` gives images to a runtime that takes them; others have only their own."""

    def __init__(self, *, client: CriClient, supply: Supply, hand: ImageHand | None) -> None:
        self._client, self._supply, self._hand = client, supply, hand
        self._has_host = False
        """The machine's own programs may have changed since another kubelet gave them."""

    async def get(self, name: str) -> ImageInfo | None:
        is_host = host.is_host(name)
        found = await self._find(name) if not is_host or self._has_host else None
        if found is None and (bundle := await asyncio.to_thread(self._supply.find, name)) is not None:
            found = await self._give(bundle)
            self._has_host = self._has_host or is_host
        return found

    async def _find(self, name: str) -> ImageInfo | None:
        cri = self._client.schema
        request = cri.ImageStatusRequest(image=cri.ImageSpec(image=name))
        answer = await self._client.images("ImageStatus", request, reason="ImageInspectError")
        return seen.image(answer.image) if answer.HasField("image") else None

    async def list(self) -> Sequence[ImageInfo]:
        return [seen.image(each) for each in (await self._client.images("ListImages")).images]

    async def remove(self, name: str) -> None:
        cri = self._client.schema
        await self._client.images("RemoveImage", cri.RemoveImageRequest(image=cri.ImageSpec(image=name)))

    async def pull(self, name: str, keyring: Keyring | None) -> str:
        try:
            wanted = parse_reference(name)
        except BadReference as fault:
            raise RuntimeFailure("InvalidImageName", f"Failed to apply default image tag {name!r}: {fault}") from None
        if host.is_host(name) and (own := await self.get(name)) is not None:
            return own.id
        known: list[Credentials | None] = [*(keyring.find(wanted) if keyring is not None else ()), None]
        for last, who in enumerate(known, start=1 - len(known)):
            try:
                return await self._fetch(str(wanted), who)
            except CriError as fault:
                if last == 0:
                    raise _failure(fault) from None
        raise AssertionError("there is always one try")

    async def _fetch(self, name: str, who: Credentials | None) -> str:
        cri = self._client.schema
        request = cri.PullImageRequest(image=cri.ImageSpec(image=name))
        if who is not None:
            request.auth.username, request.auth.password = who.username, who.password
            request.auth.identity_token, request.auth.registry_token = who.identity_token, who.registry_token
        answer = await self._client.images("PullImage", request, reason="ErrImagePull", timeout_s=None)
        return str(answer.image_ref)

    # -- what Sampan gives -------------------------------------------------------------------------------------------

    async def give_pause(self, name: str) -> bool:
        """In place of the one of which sandboxes are to be made; whether that can be."""
        if self._hand is None or not pause.is_made_here():
            return False
        return await self._give(pause.bundle(str(parse_reference(name)))) is not None

    async def _give(self, bundle: Bundle) -> ImageInfo | None:
        """The runtime hears of it a moment later."""
        if self._hand is None:
            text = f"{bundle.name} is Sampan's, and this runtime takes images only from registries"
            raise RuntimeFailure("ErrImagePull", text)
        await self._hand.give(bundle)
        for _ in range(_LOOKS):
            found = await self._find(bundle.name)
            if found is not None and found.id == bundle.config.digest:
                return found
            await asyncio.sleep(_LOOK_AGAIN_S)
        raise RuntimeFailure("ErrImagePull", f"{bundle.name} was given to the runtime, and is not there")

    async def take_back(self) -> None:
        """What was given, lest it be taken for what a registry has of that name."""
        for name in await self._hand.given() if self._hand is not None else ():
            await self.remove(name)


def _failure(fault: CriError) -> RuntimeFailure:
    reason = next((word for word in _REASONS if fault.details.startswith(word)), "ErrImagePull")
    return RuntimeFailure(reason, fault.message)


__all__ = ["CriImages"]
