"""Known vulnerabilities of installed versions of runc and crun through which a container reaches the machine.

A distribution may fix a vulnerability without a new version. The changelog of its package then names it.
"""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from sampan.runtimes.contract import RuntimeFailure
from sampan.runtimes.oci.binary import OciBinary

Version = tuple[int, ...]

_CHANGELOGS: Final = Path("/usr/share/doc")
_MAX_CHANGELOG_BYTES: Final = 4 << 20
_PATTERN: Final = re.compile(r"(?<!\d)(\d+)\.(\d+)(?:\.(\d+))?(?:-rc\.?(\d+))?")
_NO_CANDIDATE: Final = 1 << 30
"""The number of a version that is no release candidate, which is after all of its candidates."""


class _Vulnerability(NamedTuple):
    name: str
    fixed: Sequence[str]
    """The first version with the fix of each release branch, in ascending order. Later branches have it, too."""


_MASKED_PATHS: Final = ("1.2.8", "1.3.3", "1.4.0-rc.3")
KNOWN: Final[Mapping[str, Sequence[_Vulnerability]]] = {
    "runc": (
        _Vulnerability("CVE-2024-21626", ("1.1.12",)),
        _Vulnerability("CVE-2025-31133", _MASKED_PATHS),
        _Vulnerability("CVE-2025-52565", _MASKED_PATHS),
        _Vulnerability("CVE-2025-52881", _MASKED_PATHS),
    ),
    "crun": (_Vulnerability("CVE-2025-24965", ("1.20",)),),
}
"""crun has no equivalent of the three of runc from 2025: it opens nothing below /proc after it has changed its root.
CVE-2025-24965 is in its handler krun, which a container can select only where crun was built with it."""


async def find_vulnerabilities(programs: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the names of the vulnerabilities by program and version, for programs whose version is vulnerable.
    `programs` are paths by name."""
    vulnerable: dict[str, list[str]] = {}
    for name, path in programs.items():
        try:
            text = await OciBinary(path, Path("/nonexistent")).describe_version()
        except RuntimeFailure:
            continue
        mentioned = await asyncio.to_thread(read_package_fixes, name) if _is_packaged(path) else frozenset[str]()
        version = text.split("version", 1)[-1].split()[0]
        if names := list(known_vulnerabilities(name, text, mentioned)):
            vulnerable[f"{name} {version}"] = names
    return vulnerable


def known_vulnerabilities(program: str, version_text: str, fixed: Collection[str] = ()) -> Iterator[str]:
    """Yield the vulnerabilities of a program with this output of `--version`, except those that its package fixes."""
    version = parse_version(version_text.partition("\n")[0])
    for vulnerability in KNOWN.get(program, ()) if version is not None else ():
        applies = program != "crun" or "+LIBKRUN" in version_text
        if applies and vulnerability.name not in fixed and not _has_fix(version, vulnerability.fixed):
            yield vulnerability.name


def parse_version(text: str) -> Version | None:
    match = _PATTERN.search(text)
    if match is None:
        return None
    major, minor, patch, candidate = match.groups()
    return int(major), int(minor), int(patch or 0), int(candidate) if candidate else _NO_CANDIDATE


def _has_fix(version: Version | None, fixed: Sequence[str]) -> bool:
    """Whether the version is that of the fix in its branch or later, or of a later branch than all of them."""
    fixes = [parsed for text in fixed if (parsed := parse_version(text)) is not None]
    if version is None or version >= fixes[-1]:
        return True
    return any(version[:2] == fix[:2] and version >= fix for fix in fixes)


def _is_packaged(path: str) -> bool:
    return path.startswith(("/usr/bin/", "/usr/sbin/"))


def read_package_fixes(name: str, directory: Path = _CHANGELOGS) -> frozenset[str]:
    """Return the vulnerabilities that the changelog of the Debian package of a program mentions."""
    try:
        with gzip.open(directory / name / "changelog.Debian.gz") as file:
            text = file.read(_MAX_CHANGELOG_BYTES).decode("utf-8", "replace")
    except (OSError, EOFError):
        return frozenset()
    return frozenset(re.findall(r"CVE-\d{4}-\d+", text))
