"""crun or runc, whichever there is."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from sampan.runtimes.contract import RuntimeFailure

_HYBRID = Path("/sys/fs/cgroup/unified/cgroup.controllers")
"""Where cgroups of both versions are in use at a time, which crun refuses."""
_PATIENCE_S = 60.0


def find_binary() -> str | None:
    """The path of the one that is preferred: crun, which costs less, where it can work."""
    names = ("runc", "crun") if _HYBRID.exists() else ("crun", "runc")
    return next((found for name in names if (found := shutil.which(name)) is not None), None)


class OciBinary:
    """`state` is where the program keeps its own notes."""

    def __init__(self, path: str, state: Path) -> None:
        self.path, self._state = path, state
        self.version = ""

    async def look(self) -> None:
        """Find out the version; RuntimeFailure if the program does not work."""
        text = await self._run([self.path, "--version"])
        self.version = text.split("version", 1)[-1].split()[0] if "version" in text else text.split("\n")[0]

    def argv(self, *words: str, log: Path | None = None) -> list[str]:
        logs = ["--log", str(log), "--log-format", "json"] if log is not None else []
        return [self.path, "--root", str(self._state), *logs, *words]

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


__all__ = ["OciBinary", "find_binary", "logged_fault"]
