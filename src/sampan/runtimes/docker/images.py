"""The images of the Docker Engine."""

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from sampan.runtimes.contract import ImageInfo, RuntimeFailure
from sampan.runtimes.docker import messages
from sampan.runtimes.docker.client import DockerClient, DockerError
from sampan.runtimes.engine import PULL_FAILED, EngineImages
from sampan.runtimes.images import pause
from sampan.runtimes.images.bundles import ImageBundle, write_docker_archive
from sampan.runtimes.images.credentials import RegistryCredentials
from sampan.runtimes.images.reference import ImageReference, parse_reference
from sampan.runtimes.images.supply import ImageSupply


class DockerImages(EngineImages):
    """Manages images. `pause_image` is the name of the image for sandboxes."""

    def __init__(self, *, client: DockerClient, pause_image: str, supply: ImageSupply) -> None:
        super().__init__(supply=supply)
        self._client, self._pause = client, pause_image

    async def _find(self, name: str) -> ImageInfo | None:
        try:
            image = await self._client.get(f"{_path(name)}/json", reason="ImageInspectError")
        except DockerError as error:
            if error.is_missing:
                return None
            raise
        return messages.image(image, self._pause)

    async def list(self) -> Sequence[ImageInfo]:
        return [messages.image(image, self._pause) for image in await self._client.get("/images/json")]

    async def layers(self, name: str) -> Sequence[Path]:
        image = await self._client.get(f"{_path(name)}/json", reason="CreateContainerError")
        return messages.layers(image)

    async def remove(self, name: str) -> None:
        await self._client.delete(_path(name), {"force": "false"})

    async def _pull(self, reference: ImageReference, who: RegistryCredentials | None) -> str:
        await self._download(reference, who, PULL_FAILED)
        image = await self._find(str(reference))
        if image is None:
            raise RuntimeFailure(
                PULL_FAILED, f"{reference}: the image was pulled, but the Docker daemon does not list it"
            )
        return image.digests[0] if image.digests else image.id

    async def _load(self, bundle: ImageBundle) -> ImageInfo | None:
        await self._load_archive(bundle, PULL_FAILED)
        return await self._find(bundle.name)

    async def ensure_pause_image(self) -> None:
        """Ensure that the pause image is present: load the built-in one, or pull a custom one."""
        if await self._find(self._pause) is not None:
            return
        reason = "FailedCreatePodSandBox"
        if self._pause == pause.NAME and pause.is_built_in():
            await self._load_archive(pause.bundle(), reason)
        else:
            await self._download(parse_reference(self._pause), None, reason)

    async def _load_archive(self, bundle: ImageBundle, reason: str) -> None:
        with tempfile.TemporaryFile() as file:
            await asyncio.to_thread(write_docker_archive, bundle, file)
            file.seek(0)
            await self._client.post("/images/load", {"quiet": "true"}, file, reason=reason, timeout_s=None)

    async def _download(self, reference: ImageReference, who: RegistryCredentials | None, reason: str) -> None:
        query = {"fromImage": reference.name, "tag": reference.digest or reference.tag}
        headers = {"X-Registry-Auth": _auth(who, reference)} if who is not None else None
        try:
            async for step in self._client.lines("POST", "/images/create", query, headers):
                if "error" in step:
                    raise DockerError(reason, 0, str(step["error"]))
        except DockerError as error:
            raise DockerError(reason, error.code, error.message) from None


def _path(name: str) -> str:
    """Return the path of an image in the engine's API. The name comes from a pod, so it is checked and quoted: it must
    not lead to another part of the API."""
    if not all(part.strip(".") for part in name.split("/")):
        raise DockerError("InvalidImageName", 404, f"{name[:200]!r} is not the name of an image")
    return f"/images/{quote(name, safe='/:@')}"


def _auth(who: RegistryCredentials, reference: ImageReference) -> str:
    value = {"username": who.username, "password": who.password, "serveraddress": reference.registry}
    value |= {"identitytoken": who.identity_token, "registrytoken": who.registry_token}
    return base64.urlsafe_b64encode(json.dumps({key: text for key, text in value.items() if text}).encode()).decode()
