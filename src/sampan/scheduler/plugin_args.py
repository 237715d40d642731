"""Plug-ins' arguments from the configuration, read into API types with errors that name the field."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)


class ArgumentError(ValueError):
    """Arguments that a plug-in cannot use."""


def read_args(args: Mapping[str, Any], type: type[T]) -> T:
    """The arguments as a Struct; `kind` and `apiVersion` say nothing here."""
    given = {key: value for key, value in args.items() if key not in ("kind", "apiVersion")}
    try:
        return msgspec.convert(given, type)
    except msgspec.ValidationError as error:
        raise ArgumentError(str(error)) from error


__all__ = ["ArgumentError", "read_args"]
