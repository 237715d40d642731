"""crun or runc, whichever there is, or both."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from sampan.runtimes.contract import RuntimeFailure

_HYBRID = Path("/sys/fs/cgroup/unified/cgroup.controllers")
"""Where cgroups of both versions are in use at a time; crun refuses if this names any."""
_HIDING = (
    *("unshare", "--mount", "--propagation", "unchanged", "sh", "-c"),
    'mount --make-rprivate /sys/fs/cgroup && umount /sys/fs/cgroup/unified && exec "$@"',
    "sh",
)
"""Runs a program that does not see version 2, nor changes what others see."""
_PATIENCE_S = 60.0


def find_programs() -> dict[str, str]:
    """Paths by names, the preferred first: crun, which costs less, where it can work as it is."""
    names = ("runc", "crun") if _HYBRID.exists() else ("crun", "runc")
    return {name: found for name in names if (found := shutil.which(name)) is not None}


def find_binary() -> str | None:
    return next(iter(find_programs().values()), None)


def _before(path: str) -> tuple[str, ...]:
    """What a call of the program begins with."""
    is_refused = Path(path).name == "crun" and _HYBRID.exists() and _HYBRID.read_text().strip()
    return _HIDING if is_refused else ()


class OciBinary:
    """`state` is where the program keeps its own notes."""

    def __init__(self, path: str, state: Path) -> None:
        self.path, self._state, self._before = path, state, _before(path)
        self.version = ""
        self.has_recursive_read_only = False

    async def look(self) -> None:
        """Find out the version; RuntimeFailure if the program does not work."""
        text = await self._run([self.path, "--version"])
        self.version = text.split("version", 1)[-1].split()[0] if "version" in text else text.split("\n")[0]
        self.has_recursive_read_only = await self._knows("rro")

    async def _knows(self, option: str) -> bool:
        """Of a mount. One that does not tell what it can is crun of before it did, which has long known all of them."""
        try:
            told = json.loads(await self._run([self.path, "features"]))
        except (RuntimeFailure, ValueError):
            return Path(self.path).name == "crun"
        return option in told.get("mountOptions", ())

    def argv(self, *words: str, log: Path | None = None) -> list[str]:
        logs = ["--log", str(log), "--log-format", "json"] if log is not None else []
        return [*self._before, self.path, "--root", str(self._state), *logs, *words]

    async def call(self, *words: str) -> str:
        return await self._run(self.argv(*words))

    async def _run(self, argv: Sequence[str]) -> str:
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as fault:
            raise RuntimeFailure("RuntimeError", f"{argv[0]}: {fault.strerror}") from None
        try:
            async with asyncio.timeout(_PATIENCE_S):
                out, err = await process.communicate()
        except TimeoutError:
            process.kill()
            raise RuntimeFailure("RuntimeError", f"{' '.join(argv[:1])} does not end") from None
        if process.returncode:
            raise RuntimeFailure("RuntimeError", _told(err.decode("utf-8", "replace")) or f"code {process.returncode}")
        return out.decode("utf-8", "replace")


def logged_fault(log: Path) -> str:
    """What the program said went wrong, in its log of JSON lines."""
    try:
        lines = log.read_text().splitlines()
    except OSError:
        return ""
    for line in reversed(lines):
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if value.get("level") in ("error", "fatal", None) and value.get("msg"):
            return str(value["msg"])
    return ""


def _told(text: str) -> str:
    """The last line, without the time that some put before it."""
    last = text.strip().splitlines()[-1:] or [""]
    return last[0].split("level=error msg=")[-1].strip('"')


__all__ = ["OciBinary", "find_binary", "find_programs", "logged_fault"]
