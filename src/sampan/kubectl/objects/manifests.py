"""Read objects from files, directories, URLs and standard input (`cli-runtime/pkg/resource`, the file visitors)."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sampan.kubectl.client.download import download
from sampan.kubectl.command_line.flag_parser import quote_text
from sampan.kubectl.command_line.shared_flags import FilenameOptions
from sampan.kubectl.documents import decode_text, documents
from sampan.kubectl.errors import ErrorAggregate, KubectlError

STDIN = "STDIN"
_ENDINGS = (".json", ".yaml", ".yml")
SKIP_VALIDATION_ADVICE = "if you choose to ignore these errors, turn validation off with --validate=false"


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
        return str((self.value.get("metadata") or {}).get("namespace") or "")


@dataclass(frozen=True, slots=True)
class ManifestSource:
    """A file, a URL or standard input."""

    name: str

    def objects(self, *, validates: bool) -> Iterator[ManifestObject]:
        """Yield the objects of all documents, with Lists replaced by their items."""
        for value in documents(self._text(), self.name):
            yield from _objects(self.name, value, validates)

    def _text(self) -> str:
        if self.name == STDIN:
            return sys.stdin.read()
        if self.name.startswith(("http://", "https://")):
            return download(self.name)
        try:
            return decode_text(Path(self.name).read_bytes())
        except OSError as error:
            raise KubectlError(f"open {self.name}: {(error.strerror or str(error)).lower()}") from None


def manifest_sources(files: FilenameOptions) -> list[ManifestSource]:
    """Return the files of the flags. Raise an error that lists everything which does not exist."""
    files.check()
    sources: list[ManifestSource] = []
    errors = ErrorAggregate()
    for name in files.filenames:
        with errors.collect():
            if name == "-":
                if ManifestSource(STDIN) in sources:
                    raise KubectlError("standard input cannot be used for multiple arguments")
                sources.append(ManifestSource(STDIN))
            elif name.startswith(("http://", "https://")):
                sources.append(ManifestSource(name))
            else:
                paths = [path for match in _expand_glob(name) for path in _files(match, files.recursive)]
                if not (paths or sources):
                    raise KubectlError(f"error reading [{name}]: recognized file extensions are [.json .yaml .yml]")
                sources += map(ManifestSource, paths)
    errors.raise_any()
    return sources


def manifest_objects(
    files: FilenameOptions, *, validates: bool, errors: ErrorAggregate | None = None
) -> Iterator[ManifestObject]:
    """Yield the objects of all files in order. An error in a file ends that file; with `errors`, others follow."""
    for source in manifest_sources(files):
        if errors is None:
            yield from source.objects(validates=validates)
            continue
        with errors.collect():
            yield from source.objects(validates=validates)
    if files.kustomize:
        from sampan.kubectl.kustomization import build

        for value in build(files.kustomize):
            yield ManifestObject(value, files.kustomize)


def read_manifests(names: Iterable[str], *, action: str, recursive: bool = False) -> list[ManifestObject]:
    """Return the objects in order, with Lists replaced by their items. Raise KubectlError if there are none."""
    manifests = list(manifest_objects(FilenameOptions(filenames=tuple(names), recursive=recursive), validates=True))
    if not manifests:
        raise KubectlError(f"no objects passed to {action}")
    return manifests


def _expand_glob(name: str) -> list[str]:
    if Path(name).exists():
        return [name]
    import glob

    matches = sorted(glob.glob(name)) if glob.has_magic(name) else []
    if not matches:
        raise KubectlError(f"the path {quote_text(name)} does not exist")
    return matches


def _files(path: str, recursive: bool) -> list[str]:
    """Return the file itself, or the manifests in a directory, sorted as Go's filepath.Walk does."""
    if not Path(path).is_dir():
        return [path]
    files: list[str] = []
    for child in sorted(Path(path).iterdir()):
        if child.is_dir():
            files += _files(str(child), recursive) if recursive else []
        elif child.suffix in _ENDINGS:
            files.append(str(child))
    return files


def _objects(source: str, value: Any, validates: bool) -> Iterator[ManifestObject]:
    if validates:
        _validate(source, value)
    else:
        _check_decodable(source, value)
    _check_metadata(source, value)
    if isinstance(value.get("items"), list) and str(value["kind"]).endswith("List"):
        for item in value["items"]:
            yield from _objects(source, item, False)
    else:
        yield ManifestObject(value, source)


def _validate(source: str, value: Any) -> None:
    if not isinstance(value, dict):
        raise KubectlError(
            f"error validating {quote_text(source)}: error validating data: invalid object to validate; "
            f"{SKIP_VALIDATION_ADVICE}"
        )
    missing = [f"{field} not set" for field in ("apiVersion", "kind") if not value.get(field)]
    if missing:
        message = missing[0] if len(missing) == 1 else f"[{', '.join(missing)}]"
        raise KubectlError(
            f"error validating {quote_text(source)}: error validating data: {message}; {SKIP_VALIDATION_ADVICE}"
        )


def _check_decodable(source: str, value: Any) -> None:
    import msgspec

    shown = quote_text(source)
    if not isinstance(value, dict):
        text = msgspec.json.encode(value, order="sorted").decode()
        raise KubectlError(f"unable to decode {shown}: json: cannot unmarshal {text} into Go value of type object")
    for field, name in (("kind", "Kind"), ("apiVersion", "apiVersion")):
        if not value.get(field):
            text = msgspec.json.encode(value, order="sorted").decode()
            raise KubectlError(f"unable to decode {shown}: Object '{name}' is missing in '{text}'")


def _check_metadata(source: str, value: dict[str, Any]) -> None:
    metadata = value.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise KubectlError(_wrong_type(source, metadata, "metadata", "v1.ObjectMeta"))
    for field in ("name", "namespace", "generateName"):
        part = (metadata or {}).get(field)
        if part is not None and not isinstance(part, str):
            raise KubectlError(_wrong_type(source, part, f"ObjectMeta.metadata.{field}", "string"))
    for field in ("labels", "annotations"):
        parts = (metadata or {}).get(field)
        if parts is not None and not isinstance(parts, dict):
            raise KubectlError(_wrong_type(source, parts, f"ObjectMeta.metadata.{field}", "map[string]string"))
        for part in (parts or {}).values():
            if part is not None and not isinstance(part, str):
                raise KubectlError(_wrong_type(source, part, f"ObjectMeta.metadata.{field}", "string"))


def _wrong_type(source: str, part: Any, field: str, go_type: str) -> str:
    names = {bool: "bool", int: "number", float: "number", str: "string", list: "array", dict: "object"}
    return (
        f"unable to decode {quote_text(source)}: json: cannot unmarshal {names.get(type(part), 'value')} "
        f"into Go struct field {field if '.' in field else 'metadataOnlyObject.' + field} of type {go_type}"
    )
