"""Environment variables from files that containers have written to a volume (fileKeyRef)."""

from __future__ import annotations

from pathlib import Path

from sampan.api import limits
from sampan.runtimes.safe_paths import opened_root


def value(volume: Path, path: str, key: str) -> str | None:
    """Return the value, or None if there is no such file or key. Symbolic links are resolved within the volume, even if
    they change concurrently. Raise UnsafePath if the file is not regular or too large.
    """
    try:
        with opened_root(volume) as root:
            text = root.read(path, limits.ENV_FILE_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    return parsed(text).get(key)


def parsed(text: str) -> dict[str, str]:
    """Parse lines KEY=VALUE. Empty lines and those that start with # are ignored; quotes around a value are removed."""
    variables = {}
    for line in text.splitlines():
        name, equals, rest = line.strip().partition("=")
        if not equals or name.startswith("#"):
            continue
        rest = rest.strip()
        if len(rest) >= 2 and rest[0] == rest[-1] and rest[0] in "'\"":
            rest = rest[1:-1]
        variables[name.strip()] = rest
    return variables
