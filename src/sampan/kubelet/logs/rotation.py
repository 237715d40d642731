"""Rotates container logs that have grown large (`pkg/kubelet/logs`).

The current log keeps its name. Besides it there are at most `files - 1` older ones: the latest uncompressed, so that
followers can read it to its end, and the others compressed.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import os
import shutil
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sampan.api.types.core_v1 import Pod
from sampan.host.clock import Clock
from sampan.runtimes.contract import Runtime, RuntimeFailure
from sampan.runtimes.safe_paths import UnsafePath, open_file

log = logging.getLogger(__name__)

_COMPRESSED, _SCRATCH = ".gz", ".tmp"
_STAMP = "%Y%m%d-%H%M%S"

Running = Callable[[], Iterable[tuple[Pod, str]]]
"""A function that returns the pod and the name of each running container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationPolicy:
    max_bytes: int = 10 << 20
    """Size at which a log is rotated; negative to disable rotation."""
    files: int = 5
    """Maximum number of files per container, including the current one."""
    period_s: float = 10.0


@dataclass(frozen=True, slots=True)
class RotationPlan:
    """The older files to remove and to compress before the current log is renamed."""

    remove: Sequence[str]
    compress: Sequence[str]


def plan_rotation(names: Iterable[str], files: int) -> RotationPlan:
    """Return which older files of a log to remove and which to compress, so that at most `files` remain. Pure."""
    all_names = set(names)
    unused = {name for name in all_names if name.endswith(_SCRATCH) or name + _COMPRESSED in all_names}
    remaining_names = sorted(all_names - unused)
    too_many = max(len(remaining_names) - max(files - 2, 0), 0)
    remaining = remaining_names[too_many:]
    return RotationPlan(
        [*sorted(unused), *remaining_names[:too_many]], [name for name in remaining if not name.endswith(_COMPRESSED)]
    )


async def rotate(path: Path, *, files: int, now: float, reopen: Callable[[], Awaitable[None]]) -> None:
    """Rename the log and call `reopen`, which makes the runtime open a new log. If `reopen` fails, the name is
    restored.
    """
    await asyncio.to_thread(_remove_and_compress, path, files)
    aside = path.with_name(f"{path.name}.{time.strftime(_STAMP, time.gmtime(now))}")
    os.rename(path, aside)
    try:
        await reopen()
    except BaseException:
        _put_back(aside, path)
        raise


def _put_back(aside: Path, path: Path) -> None:
    if not path.exists():
        aside.rename(path)


def _remove_and_compress(path: Path, files: int) -> None:
    older = [entry.name for entry in path.parent.iterdir() if entry.name.startswith(f"{path.name}.")]
    steps = plan_rotation(older, files)
    for name in steps.remove:
        path.with_name(name).unlink(missing_ok=True)
    for name in steps.compress:
        _compress(path.with_name(name))


def _compress(path: Path) -> None:
    scratch = path.with_name(path.name + _SCRATCH)
    try:
        with open_file(path) as source, scratch.open("xb") as file:
            os.fchmod(file.fileno(), os.fstat(source.fileno()).st_mode & 0o777)
            with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=6) as target:
                shutil.copyfileobj(source, target, 1 << 20)
        scratch.rename(path.with_name(path.name + _COMPRESSED))
        path.unlink()
    except UnsafePath as error:
        log.warning("cannot compress the log %s: %s", path, error)
        path.unlink()
    finally:
        scratch.unlink(missing_ok=True)


class LogRotator:
    """Rotates the logs of running containers periodically."""

    def __init__(self, *, runtime: Runtime, running: Running, clock: Clock, policy: RotationPolicy) -> None:
        self._runtime, self._running, self._clock, self._policy = runtime, running, clock, policy

    async def run(self) -> None:
        if self._policy.max_bytes < 0:
            return
        while True:
            await self._clock.sleep(self._policy.period_s)
            await self.check()

    async def check(self) -> None:
        for pod, container in list(self._running()):
            try:
                await self._check(pod, container)
            except (OSError, RuntimeFailure) as error:
                container_name = f"{pod.metadata.namespace}/{pod.metadata.name}/{container}"
                log.warning("cannot rotate the log of %s: %s", container_name, error)

    async def _check(self, pod: Pod, container: str) -> None:
        path = self._runtime.log_file(pod, container)
        if path is None:
            return

        async def reopen() -> None:
            await self._runtime.reopen_log(pod, container)

        try:
            size = path.stat().st_size
        except FileNotFoundError:
            with suppress(RuntimeFailure):
                await reopen()
            return
        if size >= self._policy.max_bytes:
            await rotate(path, files=self._policy.files, now=self._clock.now(), reopen=reopen)
