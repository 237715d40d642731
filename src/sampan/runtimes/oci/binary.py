"""The OCI runtime program, crun or runc, and exec in containers through it."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from sampan.host.linux import programs
from sampan.runtimes.contract import ProcessStream, RuntimeFailure
from sampan.runtimes.monitor.client import MonitorClient, MonitorError
from sampan.runtimes.records import PodRecords

_HYBRID = Path("/sys/fs/cgroup/unified/cgroup.controllers")
"""A file that exists in the hybrid mode of cgroups, with v1 and v2 mounted. crun fails if the file lists any
controllers."""
_HIDING = (
    *("unshare", "--mount", "--propagation", "unchanged", "sh", "-c"),
    'mount --make-rprivate /sys/fs/cgroup && umount /sys/fs/cgroup/unified && exec "$@"',
    "sh",
)
"""The prefix of a command that runs a program in a mount namespace without cgroup v2, which leaves the mounts of other
processes unchanged."""
_COMMAND_TIMEOUT_S = 60.0


def find_programs() -> dict[str, str]:
    """Return the paths of crun and runc by name, as far as they are installed, the preferred one first. crun is
    preferred, as it has less overhead, unless the cgroups are in hybrid mode."""
    names = ("runc", "crun") if _HYBRID.exists() else ("crun", "runc")
    return {name: path for name in names if (path := shutil.which(name)) is not None}


def find_binary() -> str | None:
    return next(iter(find_programs().values()), None)


def _prefix_of_commands(path: str) -> tuple[str, ...]:
    """Return the prefix of every command that invokes the OCI runtime program at `path`."""
    is_refused = Path(path).name == "crun" and _HYBRID.exists() and _HYBRID.read_text().strip()
    return _HIDING if is_refused else ()


class OciBinary:
    """An OCI runtime program. `state` is the directory in which it keeps its state (`--root`)."""

    def __init__(self, path: str, state: Path) -> None:
        self.path, self._state, self._prefix = path, state, _prefix_of_commands(path)
        self.version = ""
        self.has_recursive_read_only = False

    async def detect_features(self) -> None:
        """Query the version and the features of the program. Raise RuntimeFailure if it does not work."""
        text = await self.describe_version()
        self.version = text.split("version", 1)[-1].split()[0] if "version" in text else text.split("\n")[0]
        self.has_recursive_read_only = await self._supports_mount_option("rro")

    async def describe_version(self) -> str:
        """Return the output of `--version`, which lists features in further lines."""
        return await self._run([self.path, "--version"])

    async def _supports_mount_option(self, option: str) -> bool:
        """Whether the program supports a mount option. Older versions of crun have no `features` command, but support
        every mount option."""
        try:
            features = json.loads(await self._run([self.path, "features"]))
        except (RuntimeFailure, ValueError):
            return Path(self.path).name == "crun"
        return option in features.get("mountOptions", ())

    def argv(self, *words: str, log: Path | None = None) -> list[str]:
        logs = ["--log", str(log), "--log-format", "json"] if log is not None else []
        return [*self._prefix, self.path, "--root", str(self._state), *logs, *words]

    async def call(self, *words: str) -> str:
        return await self._run(self.argv(*words))

    async def _run(self, argv: Sequence[str]) -> str:
        try:
            result = await programs.run(*argv, timeout_s=_COMMAND_TIMEOUT_S)
        except TimeoutError:
            raise RuntimeFailure("RuntimeError", f"{argv[0]} did not exit within {_COMMAND_TIMEOUT_S:g} s") from None
        except OSError as error:
            raise RuntimeFailure("RuntimeError", f"{argv[0]}: {error.strerror}") from None
        if result.code:
            raise RuntimeFailure("RuntimeError", _strip_log_prefix(result.last_error_line) or f"code {result.code}")
        return result.output


def read_last_error(log: Path) -> str:
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


def _strip_log_prefix(line: str) -> str:
    """Return the message of a line without the timestamp and level that some programs prepend."""
    return line.split("level=error msg=")[-1].strip('"')


class OciCommands:
    """Starts commands in containers. `directory` is the directory of the node; console sockets are created there
    because the path of a Unix socket must be short.
    """

    def __init__(self, *, directory: Path, records: PodRecords, monitor: MonitorClient) -> None:
        self._directory, self._records, self._monitor = directory, records, monitor

    async def exec(
        self,
        binary: OciBinary,
        id: str,
        directory: Path,
        command: Sequence[str],
        *,
        process: Mapping[str, Any] | None,
        has_stdin: bool,
        has_tty: bool,
    ) -> ProcessStream:
        """Start a command in the container with that id and directory. `process` is the OCI process of the container,
        or None if it has to be read from the container's config.json."""
        process = process or msgspec.json.decode((directory / "config.json").read_bytes())["process"]
        scratch = directory / f"exec-{secrets.token_hex(8)}"
        scratch.mkdir()
        try:
            spec = {**process, "args": list(command), "terminal": has_tty}
            (scratch / "process.json").write_bytes(msgspec.json.encode(spec))
            return await self._begin(binary, id, scratch, has_stdin=has_stdin, has_tty=has_tty)
        finally:
            self._records.remove(scratch)

    async def _begin(
        self, binary: OciBinary, id: str, scratch: Path, *, has_stdin: bool, has_tty: bool
    ) -> ProcessStream:
        """Start the command detached, so that the command itself, not the OCI runtime, is the monitor's child and is
        killed when the stream is closed."""
        request: dict[str, Any] = {"stdin": has_stdin, "tty": has_tty, "pid_file": str(scratch / "pid")}
        words = ["exec", "--detach", "--pid-file", request["pid_file"], "--process", str(scratch / "process.json")]
        if has_tty:
            request["console"] = str(self._directory / f"tty-{scratch.name}")
            words += ["--tty", "--console-socket", request["console"]]
        argv = binary.argv(*words, id, log=scratch / "log")
        try:
            return await self._monitor.exec(scratch.name, argv, **request)
        except MonitorError as error:
            raise RuntimeFailure("ExecError", read_last_error(scratch / "log") or error.message) from None
