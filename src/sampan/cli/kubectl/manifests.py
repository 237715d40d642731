"""Read objects from files, directories and standard input."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sampan.cli.failures import CliError

STDIN = "STDIN"
_ENDINGS = (".yaml", ".yml", ".json")
_NEXT_DOCUMENT = re.compile(r"^---(?:[ \t].*)?$\n?", re.MULTILINE)
_TURN_OFF = "if you choose to ignore these errors, turn validation off with --validate=false"


@dataclass(frozen=True, slots=True)
class ManifestObject:
    value: dict[str, Any]
    source: str
    """The path of the file, or STDIN, for error messages."""

    @property
    def api_version(self) -> str:
        return str(self.value["apiVersion"])

    @property
    def kind(self) -> str:
        return str(self.value["kind"])

    @property
    def name(self) -> str:
        return str((self.value.get("metadata") or {}).get("name", ""))

    @property
    def namespace(self) -> str:
        return str((self.value.get("metadata") or {}).get("namespace", ""))


def read_manifests(names: Iterable[str], *, action: str, recursive: bool = False) -> list[ManifestObject]:
    """Return the objects in order, with Lists replaced by their items. Raise CliError if there are none."""
    manifests = [manifest for name in names for manifest in _of_name(name, recursive)]
    if not manifests:
        raise CliError(f"no objects passed to {action}")
    return manifests


def _of_name(name: str, recursive: bool) -> Iterator[ManifestObject]:
    if name == "-":
        yield from _parse(STDIN, sys.stdin.read())
        return
    path = Path(name)
    if not path.exists():
        raise CliError(f'the path "{name}" does not exist')
    for file in _files(path, recursive):
        try:
            text = file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise CliError(f"error reading {file}: {error}") from None
        yield from _parse(str(file), text)


def _files(path: Path, recursive: bool) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.glob("**/*" if recursive else "*") if file.suffix in _ENDINGS)
    if not files:
        raise CliError(f"error reading [{path}]: recognized file extensions are [.json .yaml .yml]")
    return files


def _parse(source: str, text: str) -> Iterator[ManifestObject]:
    from sampan.api.codec import yaml

    for document in _NEXT_DOCUMENT.split(text):
        try:
            value = yaml.decode(document.encode()).value
        except yaml.YamlError as error:
            raise CliError(f"error parsing {source}: error converting YAML to JSON: {error}") from None
        if value is not None:
            yield from _objects(source, value)


def _objects(source: str, value: Any) -> Iterator[ManifestObject]:
    if not isinstance(value, dict):
        raise CliError(f'error validating "{source}": error validating data: invalid object to validate; {_TURN_OFF}')
    missing = [f"{field} not set" for field in ("apiVersion", "kind") if not value.get(field)]
    if missing:
        message = missing[0] if len(missing) == 1 else f"[{', '.join(missing)}]"
        raise CliError(f'error validating "{source}": error validating data: {message}; {_TURN_OFF}')
    if value["kind"] == "List":
        for item in value.get("items") or ():
            yield from _objects(source, item)
    else:
        yield ManifestObject(value, source)
