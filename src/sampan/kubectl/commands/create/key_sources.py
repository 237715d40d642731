"""The data of a ConfigMap or Secret: literals, files, directories and env files, their flags, and the hash
of a generated name."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sampan.api import names
from sampan.api.go_compat import gotext
from sampan.kubectl.command_line.flags import bool_flag, flag_group, string_array_flag, string_slice_flag
from sampan.machinery.cli_errors import CliError

Add = Callable[[str, bytes], None]
"""Adds a key with its content to the object; raises CliError for a key that is not valid or exists."""

_CONSONANTS = str.maketrans("013ae", "ghkmt")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    from_file: tuple[str, ...] = string_slice_flag(
        "--from-file",
        metavar="[KEY=]PATH",
        help="File, or directory of files, whose content becomes a value; repeatable.",
    )
    from_literal: tuple[str, ...] = string_array_flag(
        "--from-literal", metavar="KEY=VALUE", help="Key and value; repeatable."
    )
    from_env_file: tuple[str, ...] = string_slice_flag(
        "--from-env-file", metavar="FILE", help="File with lines KEY=VALUE; repeatable."
    )

    def check(self) -> None:
        if self.from_env_file and (self.from_file or self.from_literal):
            raise CliError("from-env-file cannot be combined with from-file or from-literal")


def source_flags() -> SourceOptions:
    """Declare --from-file, --from-literal and --from-env-file."""
    return flag_group(SourceOptions)


def append_hash_flag() -> bool:
    return bool_flag("--append-hash", help="Append a hash of the content to the name.")


def add_literals(add: Add, sources: Sequence[str]) -> None:
    """Add keys from sources of the form key=value."""
    for source in sources:
        key, equals, value = source.partition("=")
        if not (key and equals):
            raise CliError(f"invalid literal source {source}, expected key=value")
        add(key, value.encode("utf-8", "surrogateescape"))


def add_files(add: Add, sources: Sequence[str]) -> None:
    """Add keys from sources of the form [key=]path; a directory adds each regular file in it."""
    for source in sources:
        key, path = _file_source(source)
        if not _is_directory(path):
            add(key, _content(path))
            continue
        if "=" in source:
            raise CliError("cannot give a key name for a directory path")
        for item in sorted(Path(path).iterdir()):
            if item.is_file() and not item.is_symlink():
                add(item.name, _content(str(item)))


def add_env_files(add: Add, paths: Sequence[str], *, kind: str) -> None:
    """Add the variables of env files. `kind` names the object in the error for a directory."""
    for path in paths:
        if _is_directory(path):
            raise CliError(f"env {kind} file cannot be a directory")
        for key, value in env_file_variables(path):
            add(key, value.encode())


def env_file_variables(path: str) -> Iterator[tuple[str, str]]:
    """Yield the variables of an env file. A name without a value takes its value from the environment."""
    for number, line in enumerate(_content(path).split(b"\n"), 1):
        try:
            text = line.removesuffix(b"\r").decode()
        except UnicodeDecodeError:
            raw = gotext.value(list(line))
            raise CliError(f"env file {path} contains invalid utf8 bytes at line {number}: {raw}") from None
        text = (text.removeprefix("\ufeff") if number == 1 else text).lstrip()
        if not text or text.startswith("#"):
            continue
        key, equals, value = text.partition("=")
        if errors := names.env_var_name(key):
            raise CliError(f"{gotext.quote(key)} is not a valid key name: {';'.join(errors)}")
        yield key, value if equals else os.environ.get(key, "")


def with_hashed_name(value: dict[str, Any]) -> dict[str, Any]:
    """Return the object with the suffix of --append-hash in its name: a hash of name, kind, type and data."""
    hashed = {"kind": value["kind"], "name": value["metadata"]["name"], "data": value.get("data") or {}}
    if value["kind"] == "Secret":
        hashed["type"] = value.get("type", "")
    elif value.get("binaryData"):
        hashed["binaryData"] = value["binaryData"]
    digest = hashlib.sha256(gotext.json_text(hashed).encode("utf-8", "surrogateescape")).hexdigest()[:10]
    name = f"{hashed['name']}-{digest.translate(_CONSONANTS)}"
    return {**value, "metadata": {**value["metadata"], "name": name}}


def _file_source(source: str) -> tuple[str, str]:
    count = source.count("=")
    if count == 0:
        return source.rstrip("/").rpartition("/")[2] or "/", source
    if count > 1:
        raise CliError("key names or file paths cannot contain '='")
    key, _, path = source.partition("=")
    if not key:
        raise CliError(f"key name for file path {path} missing")
    if not path:
        raise CliError(f"file path for key name {key} missing")
    return key, path


def _is_directory(path: str) -> bool:
    try:
        return os.path.isdir(path) if os.stat(path) else False
    except (OSError, ValueError) as error:
        raise CliError(f"error reading {path}: {_reason(error)}") from None


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise CliError(f"open {path}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) else None
    return (text or str(error)).lower()
