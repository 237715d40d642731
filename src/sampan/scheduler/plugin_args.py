"""Plug-in arguments from the configuration, converted to structures with errors that name the field."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)


class ArgumentError(ValueError):
    """The arguments of a plug-in are invalid."""


def read_args(args: Mapping[str, Any], type: type[T]) -> T:
    """Convert the arguments to `type`, ignoring `kind` and `apiVersion`; raise ArgumentError if they are invalid."""
    fields = {key: value for key, value in args.items() if key not in ("kind", "apiVersion")}
    try:
        return msgspec.convert(fields, type)
    except msgspec.ValidationError as error:
        raise ArgumentError(str(error)) from error
