"""Manifests: the objects in files, folders and standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from sampan.cli.failures import CliError

_ENDINGS = (".yaml", ".yml", ".json")


def read_manifests(names: Iterable[str], *, recursive: bool = False) -> list[dict[str, Any]]:
    """The objects in order; a List gives its items."""
    found = [obj for name in names for obj in _of_name(name, recursive)]
    if not found:
        raise CliError("no objects passed")
    return found


def _of_name(name: str, recursive: bool) -> Iterator[dict[str, Any]]:
    if name == "-":
        yield from _parse("STDIN", sys.stdin.read())
        return
    path = Path(name)
    if not path.exists():
        raise CliError(f'the path "{name}" does not exist')
    files = [path]
    if path.is_dir():
        pattern = "**/*" if recursive else "*"
        files = sorted(file for file in path.glob(pattern) if file.suffix in _ENDINGS)
        if not files:
            raise CliError(f"error reading [{name}]: recognized file extensions are {', '.join(_ENDINGS)}")
    for file in files:
        try:
            yield from _parse(str(file), file.read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise CliError(f"{file}: {error}") from None


def _parse(source: str, text: str) -> Iterator[dict[str, Any]]:
    try:
        documents = list(yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except yaml.YAMLError as error:
        raise CliError(f"error parsing {source}: {' '.join(str(error).split())}") from None
    for document in documents:
        if document is not None:
            yield from _objects(source, document)


def _objects(source: str, value: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(value, dict) or not value.get("kind"):
        raise CliError(f"error validating \"{source}\": Object 'Kind' is missing")
    if not value.get("apiVersion"):
        raise CliError(f'error validating "{source}": apiVersion not set')
    if value["kind"] == "List":
        for item in value.get("items") or ():
            yield from _objects(source, item)
    else:
        yield value
