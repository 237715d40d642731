"""The OCI runtime program: crun or runc."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from sampan.machinery import programs
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
            result = await programs.run(*argv, timeout_s=_PATIENCE_S)
        except TimeoutError:
            raise RuntimeFailure("RuntimeError", f"{argv[0]} did not exit within {_PATIENCE_S:g} s") from None
        except OSError as error:
            raise RuntimeFailure("RuntimeError", f"{argv[0]}: {error.strerror}") from None
        if result.code:
            raise RuntimeFailure("RuntimeError", _without_log_prefix(result.last_error_line) or f"code {result.code}")
        return result.output


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


def _without_log_prefix(line: str) -> str:
    """Return the message of a line without the timestamp and level that some programs prepend."""
    return line.split("level=error msg=")[-1].strip('"')
