"""The processes of a session. A session is what holds a container of plain processes together."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from sampan.runtimes.contract import Usage

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def members(leader: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the pid and the fields of /proc/PID/stat after the name, for each process of the session with that
    leader."""
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            text = Path(f"/proc/{name}/stat").read_text()
        except OSError:
            continue
        fields = text[text.rindex(")") + 2 :].split()
        if int(fields[3]) == leader:
            yield int(name), fields


def usage(name: str, leader: int) -> Usage:
    cpu_s, memory, count, minor, major = 0.0, 0, 0, 0, 0
    for _, fields in members(leader):
        cpu_s += (int(fields[11]) + int(fields[12])) / _TICKS
        memory += int(fields[21]) * _PAGE
        minor += int(fields[7])
        major += int(fields[9])
        count += 1
    return Usage(
        name=name,
        cpu_cores=0.0,
        memory_bytes=memory,
        cpu_s=cpu_s,
        memory_rss_bytes=memory,
        page_faults=minor,
        major_page_faults=major,
        processes=count,
    )


def kill(leader: int, number: int) -> None:
    """Send a signal to all remaining processes of the session."""
    for pid, _ in list(members(leader)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
