"""Configuration files of the API server in YAML or JSON, decoded strictly, with errors that name the field."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from sampan.api.field_errors import FieldError
from sampan.machinery.config_file import ConfigFileError, convert_config, read_config_file

Content = TypeVar("Content")


def raise_errors(field_errors: Sequence[FieldError]) -> None:
    """Raise a `ConfigFileError` that reports all errors, if there are any."""
    texts = [str(error) for error in field_errors]
    if texts:
        raise ConfigFileError(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


def read_config(path: Path, form: type[Content], *, group: str, versions: Sequence[str], kind: str) -> Content:
    """Return the decoded file. Raise `ConfigFileError` if it cannot be decoded, or is of another kind or version."""
    value = read_config_file(path)
    _check_kind(value, group, versions, kind)
    return convert_config(value, form)


def _check_kind(value: Any, group: str, versions: Sequence[str], kind: str) -> None:
    api_versions = [f"{group}/{version}" for version in versions]
    if not isinstance(value, dict):
        raise ConfigFileError(f"want a {kind} of {api_versions[0]}")
    if value.get("kind") != kind or value.get("apiVersion") not in api_versions:
        actual = f"a {value.get('kind')} of {value.get('apiVersion')}"
        raise ConfigFileError(f"want a {kind} of {' or '.join(api_versions)}, not {actual}")
