"""Read manifests in all forms that tests use: text, files, directories, dicts, lists, and typed objects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from sampan.testing.builders import manifest

Object: TypeAlias = dict[str, Any]
"""An object as plain values, as JSON and YAML have it."""
Objects: TypeAlias = list[Object]
Manifest: TypeAlias = "str | PathLike[str] | Mapping[str, Any] | msgspec.Struct | Sequence[Manifest]"

_DOCUMENT_END = re.compile(r"^---(?:[ \t].*)?$\n?", re.MULTILINE)
_FILE_SUFFIXES = (".json", ".yaml", ".yml")
_FIRST_KINDS = ("Namespace", "CustomResourceDefinition")


def read_manifests(manifests: Manifest) -> list[Object]:
    """Return the objects, with Lists replaced by their items, and namespaces and definitions before what may need
    them.

    A string with a line break or a brace is YAML or JSON; any other string, and any path, names a file or a directory
    of `.yaml`, `.yml` and `.json` files. Raise ValueError for what is not a manifest, FileNotFoundError for a path that
    does not exist.
    """
    objects = list(_objects(manifests))
    return sorted(objects, key=lambda value: value["kind"] not in _FIRST_KINDS)


def _objects(source: Manifest) -> Iterator[Object]:
    if isinstance(source, str) and ("\n" in source or "{" in source):
        yield from _parse_documents(source, "manifest")
    elif isinstance(source, str | PathLike):
        for file in _files(Path(source)):
            yield from _parse_documents(file.read_text(), str(file))
    elif isinstance(source, msgspec.Struct):
        yield from _check_objects([manifest(source)], type(source).__name__)
    elif isinstance(source, Mapping):
        yield from _check_objects([source], "manifest")
    elif isinstance(source, Iterable):
        for part in source:
            yield from _objects(part)
    else:
        raise TypeError(f"manifest: must be text, a path, an object or a list of them, not {type(source).__name__}")


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = [file for file in sorted(path.iterdir()) if file.suffix in _FILE_SUFFIXES]
    if not files:
        raise ValueError(f"{path}: the directory contains no {', '.join(_FILE_SUFFIXES)} files")
    return files


def _parse_documents(text: str, source: str) -> Iterator[Object]:
    from sampan.api.codec import yaml

    for document in _DOCUMENT_END.split(text):
        try:
            value = yaml.decode(document.encode()).value
        except yaml.YamlError as error:
            raise ValueError(f"{source}: {error}") from None
        if value is not None:
            yield from _check_objects([value], source)


def _check_objects(values: Iterable[Any], source: str) -> Iterator[Object]:
    for value in values:
        if not isinstance(value, Mapping) or not value.get("apiVersion") or not value.get("kind"):
            raise ValueError(f"{source}: not an object with apiVersion and kind: {str(value)[:80]}")
        if str(value["kind"]).endswith("List") and isinstance(value.get("items"), list):
            yield from _check_objects(value["items"], source)
        else:
            yield dict(value)


_HOLLOW = "hollow.sampan.dev/"
_TEMPLATE_PATHS: Mapping[str, Sequence[str]] = {
    "Pod": (),
    **dict.fromkeys(
        ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController"), ("spec", "template")
    ),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "PodTemplate": ("template",),
}
"""The kinds with a pod or a pod template, and its path."""


def check_hollow_annotations(value: Object) -> None:
    """Raise ValueError if an annotation for hollow containers has no effect, because it is misspelt, cannot be parsed,
    or belongs in the pod template. A cluster only records an event about it."""
    path = _TEMPLATE_PATHS.get(value["kind"])
    if path is None:
        return
    subject = f"{str(value['kind']).lower()}/{_dig(value, 'metadata', 'name')}"
    misplaced = [key for key in _dig(value, "metadata", "annotations") or () if path and str(key).startswith(_HOLLOW)]
    if misplaced:
        raise ValueError(f"{subject}: annotation {misplaced[0]} belongs in the metadata of {'.'.join(path)}")
    annotations = _dig(value, *path, "metadata", "annotations") or {}
    if any(str(key).startswith(_HOLLOW) for key in annotations):
        from sampan.runtimes.hollow.behavior import annotation_errors

        spec = _dig(value, *path, "spec") or {}
        containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
        names = [str(container.get("name")) for container in containers]
        texts = annotation_errors({str(key): str(text) for key, text in annotations.items()}, names)
        if texts:
            raise ValueError(f"{subject}: {'; '.join(texts)}")


def _dig(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
