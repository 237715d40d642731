"""Sources of static pods: a manifest directory or file, and a URL, both polled (`pkg/kubelet/config`)."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from yarl import URL

from sampan.api.types.core_v1 import Pod
from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.agent.static_pods import FILE, HTTP, BadManifest, read_pods
from sampan.machinery.clock import Clock
from sampan.machinery.http_session import HttpSession, get_following
from sampan.machinery.lean_aiohttp import aiohttp

log = logging.getLogger(__name__)

_LOOK_S = 1.0
"""Interval at which the manifest directory is checked for changes."""
_MOST_BYTES = 10 << 20
"""Maximum size of a manifest file or HTTP response."""

Update = Callable[[str, Sequence[Pod]], None]
"""Receives the name of a source and all of its pods."""


class Sources:
    def __init__(self, *, config: AgentConfig, clock: Clock, update: Update) -> None:
        self._config, self._clock, self._update = config, clock, update
        self._seen: object = None
        self._is_fetched = not config.static_url

    @property
    def are_known(self) -> bool:
        """Whether every source has delivered its pods at least once."""
        return self._is_fetched

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            if self._config.static_folder is not None:
                group.create_task(self._follow_folder(self._config.static_folder))
            if self._config.static_url:
                group.create_task(self._follow_url())

    async def begin(self) -> None:
        """Read the manifest directory once."""
        if self._config.static_folder is not None:
            await self._look(self._config.static_folder)

    async def _follow_folder(self, place: Path) -> None:
        while True:
            await self._clock.sleep(min(_LOOK_S, self._config.static_period_s))
            await self._look(place)

    async def _look(self, place: Path) -> None:
        try:
            now = await asyncio.to_thread(_state, place)
        except OSError as error:
            log.warning("cannot read static pods from %s: %s", place, error)
            return
        if now != self._seen:
            self._seen = now
            self._update(FILE, await asyncio.to_thread(self._read_folder, place))

    def _read_folder(self, place: Path) -> list[Pod]:
        pods = []
        for path in _files(place):
            try:
                with path.open("rb") as file:
                    text = _text(file.read(_MOST_BYTES + 1))
                pods += read_pods(text, FILE, self._config.name, self._clock.now())
            except (OSError, BadManifest) as error:
                log.warning("cannot read static pods from %s: %s", path, error)
        return pods

    async def _follow_url(self) -> None:
        before = ""
        while True:
            try:
                text = await self._fetched()
                if text != before:
                    self._update(HTTP, read_pods(text, HTTP, self._config.name, self._clock.now()))
                    before = text
                self._is_fetched = True
            except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
                log.warning("cannot read static pods from %s: %s", self._config.static_url, error)
            await self._clock.sleep(self._config.static_url_period_s)

    async def _fetched(self) -> str:
        headers = dict(self._config.static_url_headers)
        async with asyncio.timeout(10), HttpSession() as session:
            # The headers may contain credentials: with them, redirects are followed only on the same host.
            url = URL(self._config.static_url)
            async with get_following(session, url, headers, may_leave_host=not headers) as answer:
                if answer.status not in range(200, 207):
                    raise BadManifest(f"{answer.url}: {answer.status} {answer.reason}")
                data = bytearray()
                async for piece in answer.content.iter_any():
                    data += piece
                    if len(data) > _MOST_BYTES:
                        break
        if not data:
            raise BadManifest("zero-length data received")
        return _text(bytes(data))


def _text(data: bytes) -> str:
    if len(data) > _MOST_BYTES:
        raise BadManifest(f"more than {_MOST_BYTES} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadManifest(f"neither JSON nor YAML: {error}") from None


def _files(place: Path) -> list[Path]:
    """Return the manifest files. Hidden files are ignored."""
    if not place.is_dir():
        return [place] if place.exists() else []
    return sorted(path for path in place.iterdir() if path.is_file() and not path.name.startswith("."))


def _state(place: Path) -> list[tuple[str, int, int]]:
    files = []
    for path in _files(place):
        try:
            about = os.stat(path)
        except OSError:
            continue
        files.append((str(path), about.st_mtime_ns, about.st_size))
    return files
