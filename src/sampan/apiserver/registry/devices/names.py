"""Validation of names of devices, drivers and pools, and of device taints and tolerations.

It also has the validation of lists and maps with a maximum size: items of a list that is too long are not validated.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.types.resource_v1 import DeviceTaint, DeviceToleration
from sampan.api.types.resource_v1beta2 import DeviceTaint as RuleTaint
from sampan.apiserver.registry.podspec.volumes.sources import validate_csi_driver_name
from sampan.apiserver.registry.validation import (
    FieldErrors,
    validate_dns_subdomain,
    validate_label_value,
    validate_qualified_name,
)

Item = TypeVar("Item")
Check = Callable[[Item, str], Iterable[FieldError]]
_MIN_SHOWN_KEY_LENGTH = 16


def validate_slice(items: Sequence[Item], maximum: int, check: Check[Item], path: str) -> FieldErrors:
    if len(items) > maximum:
        yield FieldError.too_many(path, len(items), maximum)
    yield from validate_items(items, maximum, check, path)


def validate_items(items: Sequence[Item], maximum: int, check: Check[Item], path: str) -> FieldErrors:
    """Yield the errors of the items of a list, unless there are too many, which the tags of the list report."""
    for index, item in enumerate(items if len(items) <= maximum else ()):
        yield from check(item, f"{path}[{index}]")


def validate_set(
    items: Sequence[Item], maximum: int, check: Check[Item], key: Callable[[Item], Hashable], path: str
) -> FieldErrors:
    """Yield the errors of a list whose items must have distinct keys."""
    yield from validate_slice(items, maximum, check, path)
    if len(items) > maximum:
        return
    keys: set[Hashable] = set()
    for index, item in enumerate(items):
        if key(item) in keys:
            yield FieldError.duplicate(f"{path}[{index}]", key(item))
        keys.add(key(item))


def validate_map(
    mapping: Mapping[str, Any], longest: int, validate_key: Check[str], check: Check[Any], path: str
) -> FieldErrors:
    """Yield the errors of a map. In field paths, keys longer than `longest` are abbreviated in the middle."""
    for key in sorted(mapping):
        yield from validate_key(key, path)
        yield from check(mapping[key], f"{path}[{_truncate_middle(key, max(longest, _MIN_SHOWN_KEY_LENGTH))}]")


def _truncate_middle(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    visible_length = longest - 3
    return f"{text[: (visible_length + 1) // 2]}...{text[len(text) - visible_length // 2 :]}"


MAX_DOMAIN_LENGTH, MAX_IDENTIFIER_LENGTH = 63, 32
MAX_QUALIFIED_NAME_LENGTH = MAX_DOMAIN_LENGTH + 1 + MAX_IDENTIFIER_LENGTH
validate_driver_name = validate_csi_driver_name
"""Device drivers have the same form of names as CSI drivers."""


def validate_pool_name(name: str, path: str) -> FieldErrors:
    if not name:
        yield FieldError.required(path)
        return
    if names.size(name) > names.SUBDOMAIN_MAX:
        yield FieldError.too_long(path, names.SUBDOMAIN_MAX)
    for part in name.split("/"):
        yield from validate_dns_subdomain(part, path)


def validate_device_qualified_name(name: str, path: str) -> FieldErrors:
    """Yield the errors of an identifier with or without a domain."""
    parts = name.split("/")
    if len(parts) == 1:
        yield from _validate_identifier(name, path)
    elif len(parts) == 2:
        if parts[0]:
            yield from validate_driver_name(parts[0], path)
        else:
            yield FieldError.invalid(path, "", "the domain must not be empty")
        if parts[1]:
            yield from _validate_identifier(parts[1], path)
        else:
            yield FieldError.invalid(path, "", "the name must not be empty")


def _validate_identifier(name: str, path: str) -> FieldErrors:
    if names.size(name) > MAX_IDENTIFIER_LENGTH:
        yield FieldError.too_long(path, MAX_IDENTIFIER_LENGTH)
    for text in names.c_identifier(name):
        yield FieldError.invalid(path, name, text)


def validate_device_taint(taint: DeviceTaint | RuleTaint, path: str) -> FieldErrors:
    yield from validate_qualified_name(taint.key, f"{path}.key")
    yield from validate_label_value(taint.value, f"{path}.value")


def validate_device_toleration(toleration: DeviceToleration, path: str) -> FieldErrors:
    if toleration.operator == "Exists":
        if toleration.value:
            yield FieldError.invalid(f"{path}.value", toleration.value, "must be empty for operator `Exists`")
    elif toleration.operator == "Equal":
        yield from validate_label_value(toleration.value, f"{path}.value")
