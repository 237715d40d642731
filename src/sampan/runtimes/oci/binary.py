"""The OCI runtime program: crun or runc."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from sampan.runtimes.contract import RuntimeFailure

_HYBRID = Path("/sys/fs/cgroup/unified/cgroup.controllers")
"""Exists in the hybrid mode of cgroups, with v1 and v2 mounted. crun fails if the file lists any controllers."""
_HIDING = (
    *("unshare", "--mount", "--propagation", "unchanged", "sh", "-c"),
    'mount --make-rprivate /sys/fs/cgroup && umount /sys/fs/cgroup/unified && exec "$@"',
    "sh",
)
"""The prefix of a command that runs a program in a mount namespace without cgroup v2, which leaves the mounts of other
processes unchanged."""
_PATIENCE_S = 60.0
_EXIT_PATIENCE_S = 10


def find_programs() -> dict[str, str]:
    """Return the paths of the programs by name, the preferred one first: crun, which has less overhead, unless the
    cgroups are in hybrid mode."""
    names = ("runc", "crun") if _HYBRID.exists() else ("crun", "runc")
    return {name: path for name in names if (path := shutil.which(name)) is not None}


def find_binary() -> str | None:
    return next(iter(find_programs().values()), None)


def _before(path: str) -> tuple[str, ...]:
    """Return the prefix of every command with this program."""
    is_refused = Path(path).name == "crun" and _HYBRID.exists() and _HYBRID.read_text().strip()
    return _HIDING if is_refused else ()


class OciBinary:
    """An OCI runtime program. `state` is the directory in which it keeps its state (`--root`)."""

    def __init__(self, path: str, state: Path) -> None:
        self.path, self._state, self._before = path, state, _before(path)
        self.version = ""
        self.has_recursive_read_only = False

    async def look(self) -> None:
        """Query the version and the features of the program. Raise RuntimeFailure if it does not work."""
        text = await self._run([self.path, "--version"])
        self.version = text.split("version", 1)[-1].split()[0] if "version" in text else text.split("\n")[0]
        self.has_recursive_read_only = await self._knows("rro")

    async def _knows(self, option: str) -> bool:
        """Whether the program supports a mount option. Older versions of crun have no `features` command, but support
        every mount option."""
        try:
            features = json.loads(await self._run([self.path, "features"]))
        except (RuntimeFailure, ValueError):
            return Path(self.path).name == "crun"
        return option in features.get("mountOptions", ())

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
        except OSError as error:
            raise RuntimeFailure("RuntimeError", f"{argv[0]}: {error.strerror}") from None
        try:
            async with asyncio.timeout(_PATIENCE_S):
                out, err = await process.communicate()
        except TimeoutError:
            process.kill()
            raise RuntimeFailure("RuntimeError", f"{' '.join(argv[:1])} does not end") from None
        finally:
            await wait_for_exit(process)
        if process.returncode:
            raise RuntimeFailure(
                "RuntimeError", _last_line(err.decode("utf-8", "replace")) or f"code {process.returncode}"
            )
        return out.decode("utf-8", "replace")


async def wait_for_exit(process: asyncio.subprocess.Process) -> None:
    """Wait until a program has exited, also if its caller was cancelled: a command of the runtime must not be cut off
    half-way, and must not outlive the event loop. A program that does not exit in time is killed."""
    if process.returncode is not None:
        return
    try:
        async with asyncio.timeout(_EXIT_PATIENCE_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def last_logged_error(log: Path) -> str:
    """Return the last error in a log of JSON lines, or an empty string if there is none."""
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


def _last_line(text: str) -> str:
    """Return the last line, without the timestamp and level that some programs prepend."""
    last = text.strip().splitlines()[-1:] or [""]
    return last[0].split("level=error msg=")[-1].strip('"')
