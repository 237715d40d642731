"""Images as a runtime that speaks CRI has them."""

from __future__ import annotations

from collections.abc import Sequence

from sampan.runtimes.contract import ImageInfo, RuntimeFailure
from sampan.runtimes.cri import seen
from sampan.runtimes.cri.client import CriClient, CriError
from sampan.runtimes.images.credentials import Credentials, Keyring
from sampan.runtimes.images.reference import BadReference, parse_reference

_REASONS = ("RegistryUnavailable", "SignatureValidationFailed")
"""Words with which a runtime begins to say why, and which the pod then shows."""


class CriImages:
    def __init__(self, *, client: CriClient) -> None:
        self._client = client

    async def get(self, name: str) -> ImageInfo | None:
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


def _failure(fault: CriError) -> RuntimeFailure:
    reason = next((word for word in _REASONS if fault.details.startswith(word)), "ErrImagePull")
    return RuntimeFailure(reason, fault.message)


__all__ = ["CriImages"]
