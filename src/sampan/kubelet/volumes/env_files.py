"""Variables out of files that containers before have written to a volume. Pure but for reading the file."""

from __future__ import annotations

from pathlib import Path

from sampan.api import limits
from sampan.runtimes.safe_paths import opened_root


def value(volume: Path, path: str, key: str) -> str | None:
    """None where there is no such file or key in it. Links lead nowhere but within the volume, whoever changes them
    meanwhile; UnsafePath where the file is not a regular one or too large."""
    try:
        with opened_root(volume) as root:
            text = root.read(path, limits.ENV_FILE_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    return parsed(text).get(key)


def parsed(text: str) -> dict[str, str]:
    """Lines KEY=VALUE; those that are empty or begin with # say nothing; quotes around a value are not of it."""
    found = {}
    for line in text.splitlines():
        name, equals, rest = line.strip().partition("=")
        if not equals or name.startswith("#"):
            continue
        rest = rest.strip()
        if len(rest) >= 2 and rest[0] == rest[-1] and rest[0] in "'\"":
            rest = rest[1:-1]
        found[name.strip()] = rest
    return found


__all__ = ["parsed", "value"]
