"""Configuration files of the API server in YAML or JSON, decoded strictly, with errors that name the field."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from sampan.api.field_errors import FieldError

Content = TypeVar("Content")


class ConfigFileError(ValueError):
    """A configuration file is invalid. The message starts with the field."""


def raise_errors(field_errors: Sequence[FieldError]) -> None:
    """Raise a `ConfigFileError` that reports all errors, if there are any."""
    texts = [str(error) for error in field_errors]
    if texts:
        raise ConfigFileError(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


def read_config(path: Path, form: type[Content], *, group: str, versions: Sequence[str], kind: str) -> Content:
    """Return the decoded file. Raise `ConfigFileError` if it cannot be decoded, or is of another kind or version."""
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        value = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except OSError as error:
        raise ConfigFileError(f"cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigFileError(f"cannot be read: {error}") from None
    _check_kind(value, group, versions, kind)
    try:
        return msgspec.convert(value, form)
    except msgspec.ValidationError as error:
        raise ConfigFileError(_field_first(error)) from None


def _check_kind(value: Any, group: str, versions: Sequence[str], kind: str) -> None:
    api_versions = [f"{group}/{version}" for version in versions]
    if not isinstance(value, dict):
        raise ConfigFileError(f"want a {kind} of {api_versions[0]}")
    if value.get("kind") != kind or value.get("apiVersion") not in api_versions:
        actual = f"a {value.get('kind')} of {value.get('apiVersion')}"
        raise ConfigFileError(f"want a {kind} of {' or '.join(api_versions)}, not {actual}")


def _field_first(error: msgspec.ValidationError) -> str:
    """Return the error with the field first: `jwt[0].issuer: Expected ...`."""
    what, _, where = str(error).partition(" - at `$")
    return f"{where.rstrip('`').lstrip('.')}: {what}" if where.rstrip("`") else what
