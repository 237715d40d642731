"""The file with the preferences of a user: where it is, and what it may contain (`pkg/kuberc/marshal.go`,
`pkg/config`)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from sampan.kubectl.errors import KubectlError, PlainError

Content = dict[str, Any]

_GROUP = "kubectl.config.k8s.io"
LATEST_VERSION = f"{_GROUP}/v1beta1"
_OFF = "off"
_ALIAS_NAME = re.compile(r"[a-zA-Z]+", re.ASCII)

_OPTIONS = [{"name": str, "default": str}]
_ALIAS = {"name": str, "command": str, "prependArgs": [str], "appendArgs": [str], "options": _OPTIONS}
_SHAPES: Mapping[str, Any] = {
    f"{_GROUP}/v1alpha1": {
        "overrides": [{"command": str, "flags": _OPTIONS}],
        "aliases": [{key: shape for key, shape in _ALIAS.items() if key != "options"} | {"flags": _OPTIONS}],
    },
    LATEST_VERSION: {
        "defaults": [{"command": str, "options": _OPTIONS}],
        "aliases": [_ALIAS],
        "credentialPluginPolicy": str,
        "credentialPluginAllowlist": [{"name": str, "command": str}],
    },
}
"""The fields and their types in each API version of a kuberc file. A list in the table has the shape of the items."""


class PreferenceError(PlainError):
    """The preferences cannot be applied, and the command does not run."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"error occurred while applying preferences {reason}")


def preference_path(flag: str) -> tuple[Path | None, bool]:
    """Return the path of the kuberc file, and whether the user named it with --kuberc or $KUBERC. The path is None if
    preferences are turned off."""
    variable = os.environ.get("KUBERC", "")
    if variable == _OFF:
        if flag:
            raise KubectlError("disabling kuberc via KUBERC=off and passing kuberc flag are mutually exclusive")
        return None, False
    return Path(flag or variable or Path.home() / ".kube" / "kuberc"), bool(flag or variable)


def read_document(path: Path) -> Content:
    """Return the first document of a kuberc file, as `kubectl kuberc` shows and changes it."""
    from sampan.kubectl.documents import documents

    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        raise KubectlError(f"error reading kuberc file: {open_error(path, error)}") from None
    value: Any = next(documents(text, "kuberc file"), {})
    try:
        _check_shape(value, _SHAPES[LATEST_VERSION], "")
    except ValueError as error:
        raise KubectlError(
            f"error parsing kuberc file: error unmarshaling JSON: while decoding JSON: {error}"
        ) from None
    assert isinstance(value, dict)
    return value


def load_content(flag: str) -> Content | None:
    """Return the preferences in the form of the latest version, or None if there are none. If the file cannot be used,
    raise PreferenceError if the user named it, and print a message otherwise."""
    try:
        path, is_named = preference_path(flag)
    except KubectlError as error:
        raise PreferenceError(f"kuberc error {error.message}") from None
    if path is None or not (is_named or path.exists()):
        return None
    try:
        content, unknown = _decode(path)
    except ValueError as error:
        if is_named:
            raise PreferenceError(f"kuberc error kuberc: {error}") from None
        click.echo(f"kuberc: no preferences loaded from {path}: {error}", err=True, nl=False)
        return None
    if unknown:
        fields = ", ".join(f'unknown field "{name}"' for name in unknown)
        reason = f"strict decoding error: {fields}"
        click.echo(f"kuberc: ignoring strict decoding error in {path}: {reason}", err=True, nl=False)
    return content


def _decode(path: Path) -> tuple[Content | None, list[str]]:
    """Return the first document that is a Preference of a known version, with the names of its unknown fields. Raise
    ValueError if the file has documents, but none of these."""
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        raise ValueError(open_error(path, error)) from None
    has_documents = False
    for value in _documents(text):
        has_documents = True
        if not isinstance(value, dict) or value.get("kind") != "Preference":
            continue
        shape = _SHAPES.get(str(value.get("apiVersion")))
        try:
            if shape is not None:
                unknown = _check_shape(value, shape, "")
                return _convert_to_latest(value), unknown
        except ValueError:
            continue
    if has_documents:
        raise ValueError(f"no valid preferences found in {path}, use --v=5 to see details")
    return None, []


def _documents(text: str) -> Iterator[Any]:
    """Yield the documents of a file; one that is not YAML is None."""
    from sampan.kubectl.documents import documents

    for document in re.split(r"^---\s*?$", text, flags=re.MULTILINE):
        if document.strip():
            try:
                yield next(documents(document, ""), None)
            except KubectlError:
                yield None


def _check_shape(value: Any, shape: Any, path: str) -> list[str]:
    """Return the paths of unknown fields. Raise ValueError if a value has the wrong type; null is the empty value."""
    if value is None:
        return []
    if shape is str:
        if not isinstance(value, str):
            raise ValueError(f"json: cannot unmarshal {_json_type(value)} into Go value of type string")
        return []
    if isinstance(shape, list):
        if not isinstance(value, list):
            raise ValueError(f"json: cannot unmarshal {_json_type(value)} into Go value of type slice")
        return [name for index, item in enumerate(value) for name in _check_shape(item, shape[0], f"{path}[{index}]")]
    if not isinstance(value, dict):
        raise ValueError(f"json: cannot unmarshal {_json_type(value)} into Go value of type Preference")
    unknown = []
    for key, item in value.items():
        name = f"{path}.{key}" if path else str(key)
        if key in shape:
            unknown += _check_shape(item, shape[key], name)
        elif path or key not in ("apiVersion", "kind"):
            unknown.append(name)
    return unknown


def _json_type(value: Any) -> str:
    kinds = {bool: "bool", int: "number", float: "number", str: "string", list: "array", dict: "object"}
    return kinds.get(type(value), "value")


def _convert_to_latest(value: Content) -> Content:
    """Rename the fields of the first version, and resolve the deprecated name of an allowed plugin."""
    defaults = [_rename_flags(item) for item in value.get("defaults") or value.get("overrides") or () if item]
    aliases = [_rename_flags(item) for item in value.get("aliases") or () if item]
    content = {"defaults": defaults, "aliases": aliases, "credentialPluginPolicy": value.get("credentialPluginPolicy")}
    entries = value.get("credentialPluginAllowlist")
    if entries is not None:
        content["credentialPluginAllowlist"] = [_allowed_command(entry or {}) for entry in entries]
    return content


def _rename_flags(item: Content) -> Content:
    return item | {"options": [option or {} for option in item.get("options") or item.get("flags") or ()]}


def _allowed_command(entry: Content) -> str:
    name, command = entry.get("name") or "", entry.get("command") or ""
    if name and command and name != command:
        raise ValueError("both `Name` and `Command` were supplied with different values")
    return str(command or name)


def check_content(content: Content) -> None:
    """Raise PreferenceError for the first value that kubectl does not accept."""
    names: set[str] = set()
    for alias in content["aliases"]:
        name = alias.get("name") or ""
        if not _ALIAS_NAME.fullmatch(name):
            raise PreferenceError("invalid alias name, can only include alphabetical characters")
        _check_flags(alias)
        if name in names:
            raise PreferenceError(f"duplicate alias name {name}")
        names.add(name)
    for entry in content["defaults"]:
        _check_flags(entry)


def _check_flags(entry: Content) -> None:
    for option in entry["options"]:
        name = option.get("name") or ""
        if name.startswith("-"):
            raise PreferenceError(f"flag name {name} should be in long form without dashes")


def open_error(path: Path, error: OSError) -> str:
    return f"open {path}: {(error.strerror or str(error)).lower()}"
