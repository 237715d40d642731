"""Images of a container engine. An image that the engine lacks and that Sampan can supply is loaded on first use."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Sequence

from sampan.runtimes.contract import ImageInfo, Pulled, RuntimeFailure
from sampan.runtimes.images import host
from sampan.runtimes.images.bundles import Bundle
from sampan.runtimes.images.credentials import Credentials, Keyring
from sampan.runtimes.images.reference import BadReference, Reference, parse_reference
from sampan.runtimes.images.supply import Supply

PULL_FAILED = "ErrImagePull"


class EngineImages(ABC):
    def __init__(self, *, supply: Supply) -> None:
        self._supply = supply
        self._has_host = False
        """Whether this process has loaded the host image. It is loaded once per process, because the programs of the
        machine may have changed since an earlier kubelet loaded it."""

    @abstractmethod
    async def list(self) -> Sequence[ImageInfo]: ...

    @abstractmethod
    async def remove(self, name: str) -> None: ...

    @abstractmethod
    async def _find(self, name: str) -> ImageInfo | None:
        """Return the image if the engine has it."""

    @abstractmethod
    async def _give(self, bundle: Bundle) -> ImageInfo | None:
        """Load the bundle into the engine, and return the resulting image."""

    @abstractmethod
    async def _fetch(self, wanted: Reference, who: Credentials | None) -> str:
        """Have the engine pull the image from its registry, and return a reference to it."""

    async def get(self, name: str) -> ImageInfo | None:
        is_host = host.is_host(name)
        image = await self._find(name) if not is_host or self._has_host else None
        if image is None and (bundle := await asyncio.to_thread(self._supply.find, name)) is not None:
            image = await self._give(bundle)
            self._has_host = self._has_host or is_host
        return image

    async def pull(self, name: str, keyring: Keyring | None) -> Pulled:
        """Pull an image with each of the matching credentials in turn, and anonymously at last."""
        try:
            reference = parse_reference(name)
        except BadReference as error:
            raise RuntimeFailure("InvalidImageName", f"Failed to apply default image tag {name!r}: {error}") from None
        if host.is_host(name) and (own := await self.get(name)) is not None:
            return Pulled(own.id)
        for who in keyring.find(reference) if keyring is not None else ():
            with contextlib.suppress(RuntimeFailure):
                return Pulled(await self._fetch(reference, who), who)
        return Pulled(await self._fetch(reference, None))
