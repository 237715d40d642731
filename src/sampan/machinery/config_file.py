"""The reader of configuration files in YAML or JSON, which all components share.

A file is read as the API server reads a request body (`sampan.api.codec.yaml`): dates are text, and size, nesting and
aliases are bounded. The callers put the name of the file before the message of an error.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from sampan.api import limits

Content = TypeVar("Content")

_TOO_LARGE: Final = f"the file is larger than {limits.REQUEST_BODY_BYTES} bytes"


class ConfigFileError(ValueError):
    """A configuration file is invalid. The message starts with the line or the field, if there is one."""


def read_config_file(path: Path, *, is_strict: bool = True) -> Any:
    """Return the content of a file: a JSON value. Raise ConfigFileError, also if the file cannot be read."""
    return decode_config(read_config_bytes(path), is_strict=is_strict)


def read_config_bytes(path: Path) -> bytes:
    """Return the bytes of a file, or the first of them if they are more than `decode_config` accepts. Raise
    ConfigFileError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(limits.REQUEST_BODY_BYTES + 1)
    except OSError as error:
        raise ConfigFileError(f"cannot be read: {error.strerror or error}") from None


def decode_config(content: bytes | str, *, is_strict: bool = True) -> Any:
    """Return the JSON value of a configuration. Raise ConfigFileError for a text that is not YAML, and with `is_strict`
    for a key that is set twice in a map. Otherwise the last value of a key counts."""
    value, strict_errors = decode_leniently(content)
    if is_strict and strict_errors:
        raise ConfigFileError(f"yaml: {'; '.join(strict_errors)}")
    return value


def decode_leniently(content: bytes | str) -> tuple[Any, list[str]]:
    """Return the JSON value of a configuration, and one message for each key that is set twice in a map."""
    from sampan.api.codec import yaml  # imported here, so that programs without such files start faster

    data = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
    if len(data) > limits.REQUEST_BODY_BYTES:
        raise ConfigFileError(_TOO_LARGE)
    try:
        decoded = yaml.decode(data)
    except yaml.YamlTooLargeError as error:
        raise ConfigFileError(f"the content is too large: {error}") from None
    except yaml.YamlError as error:
        raise ConfigFileError(str(error)) from None
    return decoded.value, decoded.strict_errors


def convert_config(value: Any, type: type[Content]) -> Content:
    """Convert the content of a configuration file. Raise ConfigFileError with the field first: `jwt[0].issuer: Expected
    ...`."""
    try:
        return msgspec.convert(value, type)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        field = path.rstrip("`").lstrip(".")
        raise ConfigFileError(f"{field}: {message}" if field else message) from None
