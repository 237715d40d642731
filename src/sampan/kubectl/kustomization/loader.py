"""Read kustomization files and the files that they name (kustomize's internal/loader).

A kustomization may only read files below its own directory; other directories and git repositories may be bases, and
files may be at URLs. The bases of a kustomization in a repository must be in the repository.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from sampan.kubectl.client.download import download
from sampan.kubectl.documents import documents
from sampan.kubectl.errors import KubectlError
from sampan.kubectl.kustomization import git_repository, variables
from sampan.kubectl.kustomization.git_repository import NotARepository, RepositoryAddress

_NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_KUSTOMIZATION_FIELDS = frozenset(
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
    "vars": _OBJECTS,
}
"""The types of fields, and of the items of those that are lists."""
_DEPRECATED = {
    "bases": "resources",
    "commonLabels": "labels",
    "imageTags": "images",
    "patchesJson6902": "patches",
    "patchesStrategicMerge": "patches",
    "vars": "replacements",
}
_NOT_SUPPORTED = (
    "helmCharts",
    "helmChartInflationGenerator",
    "generators",
    "transformers",
    "validators",
    "configurations",
)

Value = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Clone:
    """The local copy of a git repository."""

    address: RepositoryAddress
    directory: Path


class KustomizationLoader:
    """Reads the files of one kustomization. `clones` removes the local copies of repositories at the end."""

    def __init__(
        self,
        directory: Path,
        clones: ExitStack,
        *,
        parents: tuple[Path, ...] = (),
        repositories: tuple[_Clone, ...] = (),
    ) -> None:
        self.directory = directory
        self._clones = clones
        self._parents = parents
        self._repositories = repositories

    @classmethod
    def from_target(cls, target: str, clones: ExitStack) -> KustomizationLoader:
        """Return the loader of a directory or repository that the command line names. Raise KubectlError."""
        try:
            address = git_repository.parse_address(target)
        except NotARepository:
            return cls(_directory(Path(target), target), clones)
        return cls(Path(), clones)._open_clone(address, ())

    def open_nested(self, name: str) -> KustomizationLoader:
        """Return the loader of another kustomization, in a directory or a git repository. Raise KubectlError if it is
        none of these or makes a cycle."""
        try:
            address = git_repository.parse_address(name)
        except NotARepository:
            return self._open_directory(name)
        for clone in self._repositories:
            if clone.address.text.startswith(address.text):
                previous = f"previous URI '{clone.address.text}'"
                raise KubectlError(f"cycle detected: URI '{address.text}' referenced by {previous}")
        return self._open_clone(address, (*self._parents, self.directory))

    def _open_directory(self, name: str) -> KustomizationLoader:
        if name.startswith("/"):
            raise KubectlError(f"new root '{name}' cannot be absolute")
        path = Path(os.path.normpath(self.directory / name))
        directory = _directory(path, str(path))
        if self._repositories and not directory.is_relative_to(clone := self._repositories[-1].directory):
            raise KubectlError(
                "security; bases in kustomizations found in cloned git repos must be within the repo, but base "
                f"'{directory}' is outside '{clone}'"
            )
        for visited in (self.directory, *reversed(self._parents)):
            if visited.is_relative_to(directory):
                raise KubectlError(f"cycle detected: candidate root '{directory}' contains visited root '{visited}'")
        parents = (*self._parents, self.directory)
        return KustomizationLoader(directory, self._clones, parents=parents, repositories=self._repositories)

    def _open_clone(self, address: RepositoryAddress, parents: tuple[Path, ...]) -> KustomizationLoader:
        directory = Path(os.path.realpath(self._clones.enter_context(tempfile.TemporaryDirectory(prefix="kustomize-"))))
        git_repository.fetch(address, directory)
        root = _clone_root(address, directory)
        repositories = (*self._repositories, _Clone(address, directory))
        return KustomizationLoader(root, self._clones, parents=parents, repositories=repositories)

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
        unknown = sorted(set(value) - _KUSTOMIZATION_FIELDS)
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
        variables.check_types(value.get("vars") or ())

    def path(self, name: str) -> Path:
        """Return the path of a file of this kustomization. Raise KubectlError for one outside of its directory."""
        path = self.directory / name
        real = Path(os.path.realpath(path))
        if not real.is_relative_to(os.path.realpath(self.directory)):
            raise KubectlError(f"security; file '{real}' is not in or below '{self.directory}'")
        return path

    def read(self, name: str) -> bytes:
        if name.startswith(("http://", "https://")):
            return download(name, attempts=1).encode("utf-8", "surrogateescape")
        path = self.path(name)
        if path.is_dir():
            raise KubectlError(f"'{os.path.realpath(path)}' must resolve to a file")
        try:
            return path.read_bytes()
        except OSError as error:
            if not path.exists():
                raise KubectlError(missing_text(path)) from None
            raise KubectlError(f"read {path}: {(error.strerror or str(error)).lower()}") from None

    def objects(self, name: str) -> Iterator[Value]:
        """Yield the objects of a file, with Lists replaced by their items."""
        text = self.read(name).decode("utf-8", "replace")
        for value in documents(text, name):
            yield from _objects(value)


def _directory(path: Path, shown: str) -> Path:
    """Return the real path of a directory that may hold a kustomization. Raise KubectlError for another path."""
    if not path.exists():
        reason = missing_text(Path(os.path.abspath(path)), shown)
        raise KubectlError(f"must build at directory: not a valid directory: {reason}")
    real = Path(os.path.realpath(path))
    if not real.is_dir():
        raise KubectlError(f"must build at directory: '{shown}': file is not directory")
    return real


def _clone_root(address: RepositoryAddress, directory: Path) -> Path:
    """Return the directory of the kustomization in a clone. Raise KubectlError for one outside of the clone."""
    path = Path(os.path.normpath(directory / address.path))
    if not path.exists():
        raise KubectlError(missing_text(path))
    if not path.is_dir():
        raise KubectlError(f"'{path}' refers to file '{path.name}'; expecting directory")
    root = Path(os.path.realpath(path))
    if not root.is_relative_to(os.path.realpath(directory)):
        raise KubectlError(f'"{path}" refers to directory outside of repo "{directory}"')
    return root


def missing_text(path: Path, shown: str = "") -> str:
    """Return kustomize's error for a path that does not exist. The error names the first missing part of the path."""
    path = Path(os.path.normpath(path))
    missing = next((part for part in [*reversed(path.parents), path] if not os.path.lexists(part)), path)
    return f"evalsymlink failure on '{shown or path}' : lstat {missing}: no such file or directory"


def _warn_of_deprecated(value: Value) -> None:
    for name, replacement in _DEPRECATED.items():
        if value.get(name):
            hint = "[EXPERIMENTAL] " if name == "vars" else ""
            hint += "Run 'kustomize edit fix' to update your Kustomization automatically."
            click.echo(f"# Warning: '{name}' is deprecated. Please use '{replacement}' instead. {hint}", err=True)


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
