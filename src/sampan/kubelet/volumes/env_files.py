"""Variables out of files that containers before have written to a volume. Pure but for reading the file."""

from __future__ import annotations

from pathlib import Path

_MOST = 64 << 10


def value(volume: Path, path: str, key: str) -> str | None:
    """None where there is no such file or key in it. Nothing outside the volume is read."""
    base = volume.resolve()
    file = (base / path).resolve()
    if not file.is_relative_to(base) or not file.is_file() or file.stat().st_size > _MOST:
        return None
    return parsed(file.read_text("utf-8", "replace")).get(key)


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
