"""Images as the Docker Engine has them."""

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
from collections.abc import Sequence

from sampan.runtimes.contract import ImageInfo, RuntimeFailure
from sampan.runtimes.docker import seen
from sampan.runtimes.docker.client import DockerClient, DockerError
from sampan.runtimes.images import host, pause
from sampan.runtimes.images.bundles import Bundle, write_docker_archive
from sampan.runtimes.images.credentials import Credentials, Keyring
from sampan.runtimes.images.reference import BadReference, Reference, parse_reference
from sampan.runtimes.images.supply import Supply


class DockerImages:
    """`pause_image` is the name of the one that sandboxes are made of."""

    def __init__(self, *, client: DockerClient, pause_image: str, supply: Supply) -> None:
        self._client, self._pause, self._supply = client, pause_image, supply
        self._has_host = False
        """The machine's own programs may have changed since another kubelet loaded them."""

    async def get(self, name: str) -> ImageInfo | None:
        is_host = host.is_host(name)
        found = await self._find(name) if not is_host or self._has_host else None
        if found is None and (bundle := await asyncio.to_thread(self._supply.find, name)) is not None:
            await self._load(bundle, "ErrImagePull")
            self._has_host = self._has_host or is_host
            found = await self._find(bundle.name)
        return found

    async def _find(self, name: str) -> ImageInfo | None:
        try:
            found = await self._client.get(f"/images/{name}/json", reason="ImageInspectError")
        except DockerError as fault:
            if fault.is_missing:
                return None
            raise
        return seen.image(found, self._pause)

    async def list(self) -> Sequence[ImageInfo]:
        return [seen.image(each, self._pause) for each in await self._client.get("/images/json")]

    async def remove(self, name: str) -> None:
        await self._client.delete(f"/images/{name}", {"force": "false"})

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
                await self._fetch(wanted, who, "ErrImagePull")
                break
            except DockerError:
                if last == 0:
                    raise
        found = await self._find(str(wanted))
        if found is None:
            raise RuntimeFailure("ErrImagePull", f"{name}: the image was pulled, and is not there")
        return found.digests[0] if found.digests else found.id

    async def have_pause(self) -> None:
        """Made here where it is missing; another one that was asked for is pulled."""
        if await self._find(self._pause) is not None:
            return
        reason = "FailedCreatePodSandBox"
        if self._pause == pause.NAME and pause.is_made_here():
            await self._load(pause.bundle(), reason)
        else:
            await self._fetch(parse_reference(self._pause), None, reason)

    async def _load(self, bundle: Bundle, reason: str) -> None:
        with tempfile.TemporaryFile() as file:
            await asyncio.to_thread(write_docker_archive, bundle, file)
            file.seek(0)
            await self._client.post("/images/load", {"quiet": "true"}, file, reason=reason, timeout_s=None)

    async def _fetch(self, wanted: Reference, who: Credentials | None, reason: str) -> None:
        query = {"fromImage": wanted.name, "tag": wanted.digest or wanted.tag}
        headers = {"X-Registry-Auth": _auth(who, wanted)} if who is not None else None
        try:
            async for step in self._client.lines("POST", "/images/create", query, headers):
                if "error" in step:
                    raise DockerError(reason, 0, str(step["error"]))
        except DockerError as fault:
            raise DockerError(reason, fault.code, fault.message) from None


def _auth(who: Credentials, wanted: Reference) -> str:
    value = {"username": who.username, "password": who.password, "serveraddress": wanted.registry}
    value |= {"identitytoken": who.identity_token, "registrytoken": who.registry_token}
    return base64.urlsafe_b64encode(json.dumps({key: each for key, each in value.items() if each}).encode()).decode()


__all__ = ["DockerImages"]
