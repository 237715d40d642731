"""Exec in containers through the OCI runtime program."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from sampan.runtimes.contract import RuntimeFailure
from sampan.runtimes.monitor.client import MonitorClient, MonitorError
from sampan.runtimes.oci.binary import OciBinary, last_logged_error
from sampan.runtimes.records import PodRecords
from sampan.runtimes.streams import ProcessStream


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
            raise RuntimeFailure("ExecError", last_logged_error(scratch / "log") or error.message) from None
