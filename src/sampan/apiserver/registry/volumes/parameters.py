"""Validation of driver names and parameters in storage and volume attributes classes."""

from collections.abc import Mapping

from sampan.api import names
from sampan.api.faults import FieldError
from sampan.apiserver.registry.podspec.formats import FieldErrors, validate_qualified_name

_MOST, _LARGEST = 512, 256 * 1024


def validate_provisioner(name: str, at: str) -> FieldErrors:
    """Yield the errors of the name of a provisioner or driver, which is case-insensitive."""
    if not name:
        yield FieldError.required(at)
    else:
        yield from validate_qualified_name(name.lower(), at)


def validate_parameter(parameters: Mapping[str, str], at: str) -> FieldErrors:
    if len(parameters) > _MOST:
        yield FieldError.too_long(at, _MOST)
        return
    if "" in parameters:
        yield FieldError.invalid(at, "", "field can not be empty.")
    if sum(names.size(key) + names.size(value) for key, value in parameters.items()) > _LARGEST:
        yield FieldError.too_long(at, _LARGEST)
