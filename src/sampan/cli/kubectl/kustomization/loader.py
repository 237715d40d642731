"""Read kustomization files and the files that they name (kustomize's internal/loader).

A kustomization may only read files below its own directory; other directories may be bases. Remote bases are refused
by name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from sampan.cli.kubectl.errors import KubectlError
from sampan.cli.kubectl.manifests import documents

_NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_REMOTE = ("http://", "https://", "git@", "git::", "ssh://", "github.com/", "gh:")
_KNOWN = frozenset(
    {"apiVersion", "kind", "metadata", "resources", "bases", "components", "crds", "namespace", "namePrefix"}
    | {"nameSuffix", "commonLabels", "labels", "commonAnnotations", "patches", "patchesStrategicMerge"}
    | {"patchesJson6902", "images", "imageTags", "replicas", "replacements", "vars", "configMapGenerator"}
    | {"secretGenerator", "generatorOptions", "helmCharts", "helmGlobals", "helmChartInflationGenerator"}
    | {"generators", "transformers", "validators", "configurations", "openapi", "buildMetadata", "sortOptions"}
)
_STRINGS, _OBJECTS, _OBJECT = (list, str), (list, dict), (dict, object)
_TYPES: dict[str, tuple[type, type]] = {
    "resources": _STRINGS,
    "bases": _STRINGS,
    "components": _STRINGS,
    "patchesStrategicMerge": _STRINGS,
    "patches": _OBJECTS,
    "patchesJson6902": _OBJECTS,
    "labels": _OBJECTS,
    "images": _OBJECTS,
    "imageTags": _OBJECTS,
    "replicas": _OBJECTS,
    "replacements": _OBJECTS,
    "configMapGenerator": _OBJECTS,
    "secretGenerator": _OBJECTS,
    "generatorOptions": _OBJECT,
    "commonLabels": _OBJECT,
    "commonAnnotations": _OBJECT,
    "sortOptions": _OBJECT,
}
"""The types of fields, and of the items of those that are lists."""
_DEPRECATED = {
    "bases": "resources",
    "commonLabels": "labels",
    "imageTags": "images",
    "patchesJson6902": "patches",
    "patchesStrategicMerge": "patches",
}
_NOT_SUPPORTED = (
    "vars",
    "helmCharts",
    "helmChartInflationGenerator",
    "generators",
    "transformers",
    "validators",
    "configurations",
)

Value = dict[str, Any]


class KustomizationLoader:
    """Reads the files of one kustomization."""

    def __init__(self, directory: Path, parents: tuple[Path, ...] = ()) -> None:
        self.directory = directory
        self._parents = parents

    def nested(self, name: str) -> KustomizationLoader:
        """Return the loader of another kustomization's directory. Raise KubectlError for a cycle."""
        directory = Path(os.path.realpath(self.directory / name))
        if directory == self.directory or directory in self._parents:
            raise KubectlError(f"cycle detected: candidate root '{directory}' contains visited root '{self.directory}'")
        return KustomizationLoader(directory, (*self._parents, self.directory))

    def kustomization(self) -> Value:
        files = [self.directory / name for name in _NAMES if (self.directory / name).is_file()]
        if not files:
            names = "'kustomization.yaml', 'kustomization.yml' or 'Kustomization'"
            raise KubectlError(f"unable to find one of {names} in directory '{self.directory}'")
        if len(files) > 1:
            raise KubectlError(f"Found multiple kustomization files under: {self.directory}")
        try:
            values = list(documents(files[0].read_text(errors="replace"), str(files[0])))
        except KubectlError as error:
            reason = error.message.rpartition("error converting YAML to JSON: ")[2]
            raise KubectlError(f"invalid Kustomization: {reason}") from None
        value = values[0] if values else {}
        if not isinstance(value, dict) or len(values) > 1:
            raise KubectlError(f"invalid Kustomization: {files[0]} must hold one object")
        if not value:
            raise KubectlError("kustomization.yaml is empty")
        self._check(value)
        _warn_of_deprecated(value)
        return value

    def _check(self, value: Value) -> None:
        unknown = sorted(set(value) - _KNOWN)
        if unknown:
            raise KubectlError(f'invalid Kustomization: json: unknown field "{unknown[0]}"')
        for name in _NOT_SUPPORTED:
            if value.get(name):
                raise KubectlError(f"the field {name} of {self.directory} is not supported")
        for name, (type, item_type) in _TYPES.items():
            part = value.get(name)
            items = part if isinstance(part, list) else ()
            if part is not None and not (isinstance(part, type) and all(isinstance(item, item_type) for item in items)):
                raise KubectlError(f"invalid Kustomization: the field {name} has a value of the wrong type")

    def path(self, name: str) -> Path:
        """Return the path of a file of this kustomization. Raise KubectlError for one outside of its directory."""
        path = self.directory / name
        real = Path(os.path.realpath(path))
        if not real.is_relative_to(os.path.realpath(self.directory)):
            raise KubectlError(f"security; file '{real}' is not in or below '{self.directory}'")
        return path

    def read(self, name: str) -> bytes:
        path = self.path(name)
        try:
            return path.read_bytes()
        except OSError as error:
            if not path.exists():
                message = f"evalsymlink failure on '{path}' : lstat {path}: no such file or directory"
                raise KubectlError(message) from None
            raise KubectlError(f"read {path}: {(error.strerror or str(error)).lower()}") from None

    def objects(self, name: str) -> Iterator[Value]:
        """Yield the objects of a file, with Lists replaced by their items."""
        text = self.read(name).decode("utf-8", "replace")
        for value in documents(text, name):
            yield from _objects(value)


def _warn_of_deprecated(value: Value) -> None:
    for name, replacement in _DEPRECATED.items():
        if value.get(name):
            click.echo(
                f"# Warning: '{name}' is deprecated. Please use '{replacement}' instead. Run 'kustomize edit fix' to "
                "update your Kustomization automatically.",
                err=True,
            )


def is_remote(name: str) -> bool:
    return name.startswith(_REMOTE) or ".git" in name or "?ref=" in name


def _objects(value: Any) -> Iterator[Value]:
    if not isinstance(value, dict):
        raise KubectlError("invalid object: a manifest must be an object")
    if isinstance(value.get("items"), list) and str(value.get("kind", "")).endswith("List"):
        for item in value["items"]:
            yield from _objects(item)
        return
    if not value.get("kind"):
        raise KubectlError("missing Resource metadata: kind")
    metadata = value.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise KubectlError(f"the metadata of an object of kind {value['kind']} must be an object")
    if not metadata.get("name") and not metadata.get("generateName"):
        identity = f"{{{value.get('apiVersion', '')} {value['kind']}}}"
        raise KubectlError(f"missing metadata.name in object {{{identity} {{{{ }} map[] map[]}}}}")
    yield value
