"""Copies of container logs in the CRI log format, one background task per container."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from sampan.api import times
from sampan.runtimes import contract
from sampan.runtimes.background import Background
from sampan.runtimes.docker.client import DockerClient, DockerError, Query
from sampan.runtimes.docker.logs import LogFile, follow
from sampan.runtimes.pod_table import SeenContainer

log = logging.getLogger(__name__)

_LAST_WORDS_S = 2.0
"""How long the report of a container's exit is delayed at most for its log to become complete."""


class LogCopies:
    def __init__(self, *, client: DockerClient, background: Background) -> None:
        self._client, self._background = client, background
        self._files: dict[str, LogFile] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """Copy tasks by container id. A finished task is kept until the container is removed."""

    async def see_to(self, container: SeenContainer, *, has_tty: bool) -> None:
        """Ensure that the log of a container is being copied. If the container has exited, wait for the end of the log,
        up to a limit."""
        task = self._tasks.get(container.id)
        if task is None and container.log_path and container.state != contract.CREATED:
            task = self._background.begin(self._copy(container, has_tty=has_tty))
            self._tasks[container.id] = task
        if task is not None and container.is_over:
            await asyncio.wait((task,), timeout=_LAST_WORDS_S)

    async def _copy(self, container: SeenContainer, *, has_tty: bool) -> None:
        """Copy the log twice, first following it and then from where that ended, as the engine may end a followed log
        before its last entries."""
        file = self._files[container.id] = LogFile(Path(container.log_path))
        try:
            for follows in (1, 0):
                query: Query = {"follow": follows, "stdout": 1, "stderr": 1, "timestamps": 1}
                if file.since:
                    query = {**query, "since": _seconds(file.since)}
                    file.again()
                pieces = self._client.pieces("GET", f"/containers/{container.id}/logs", query)
                await follow(pieces, file, has_tty=has_tty)
        except DockerError as error:
            if not error.is_missing:
                log.warning("the log of container %s is incomplete: %s", container.id, error)
        finally:
            file.close()
            self._files.pop(container.id, None)

    def reopen(self, id: str) -> None:
        if (file := self._files.get(id)) is not None:
            file.reopen()

    async def forget(self, id: str) -> None:
        """Stop copying the log of a container."""
        if (task := self._tasks.pop(id, None)) is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _seconds(time: str) -> str:
    """Convert a timestamp to the engine's format: seconds since the epoch with a fraction."""
    whole, _, rest = time.removesuffix("Z").partition(".")
    return f"{int(times.parse_time(f'{whole}Z'))}.{rest or '0'}"
