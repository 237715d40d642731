"""Validation of single values that all kinds share, with the messages of kube-apiserver: names, numbers, enums, file
paths, IP addresses, conditions and immutable fields.

The counterparts are `apimachinery/pkg/api/validation` and the common part of `pkg/apis/core/validation`.
"""

import ipaddress
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from sampan.api import addresses, names
from sampan.api.field_errors import FieldError
from sampan.api.go_compat.gotext import quote
from sampan.api.go_compat.internal_view import encode_error_value
from sampan.api.types.meta_v1 import Condition
from sampan.api.values.integers import parse_int64
from sampan.host.bounded_cache import BoundedCache

FieldErrors = Iterator[FieldError]

IMMUTABLE = "field is immutable"
NEGATIVE = "must be greater than or equal to 0"
_ID_RANGE_ERROR = names.out_of_range_message(0, 2**31 - 1)


def validate_dns_label(value: str, path: str) -> FieldErrors:
    for text in names.dns1123_label(value):
        yield FieldError.invalid(path, value, text)


def validate_dns_subdomain(value: str, path: str) -> FieldErrors:
    for text in names.dns1123_subdomain(value):
        yield FieldError.invalid(path, value, text)


def validate_qualified_name(value: str, path: str) -> FieldErrors:
    for text in names.qualified_name(value):
        yield FieldError.invalid(path, value, text)


def validate_label_value(value: str, path: str) -> FieldErrors:
    for text in names.label_value(value):
        yield FieldError.invalid(path, value, text)


def validate_labels(labels: Mapping[str, str], path: str) -> FieldErrors:
    for key in sorted(labels):
        yield from validate_qualified_name(key, path)
        yield from validate_label_value(labels[key], path)


def validate_typed_reference(reference: Any, path: str) -> FieldErrors:
    """Yield the errors of the apiGroup, kind and name by which an object refers to another one, except missing ones."""
    if reference.apiGroup is not None:
        yield from validate_dns_subdomain(reference.apiGroup, f"{path}.apiGroup")
    for field in ("kind", "name"):
        value = getattr(reference, field)
        for text in names.path_segment(value) if value else ():
            yield FieldError.invalid(f"{path}.{field}", value, text)


def validate_non_negative(value: int, path: str) -> FieldErrors:
    if value < 0:
        yield FieldError.invalid(path, value, NEGATIVE)


def validate_positive(value: int, path: str) -> FieldErrors:
    if value <= 0:
        yield FieldError.invalid(path, value, "must be greater than zero")


def validate_user_or_group_id(value: int | None, path: str) -> FieldErrors:
    if value is not None and not 0 <= value < 2**31:
        yield FieldError.invalid(path, value, _ID_RANGE_ERROR)


def validate_one_of(value: str, allowed: Sequence[str], path: str) -> FieldErrors:
    """Yield an error if the value is missing or not allowed. The message lists the allowed values in their order."""
    if value in allowed:
        return
    yield FieldError.not_supported(path, value, allowed) if value else FieldError.required(path)


def validate_optional_one_of(value: str | None, allowed: Sequence[str], path: str) -> FieldErrors:
    """Yield an error if the value is set and not allowed; "" counts as set."""
    if value is not None and value not in allowed:
        yield FieldError.not_supported(path, value, allowed)


def validate_required(value: str | Collection[str] | None, path: str) -> FieldErrors:
    if not value:
        yield FieldError.required(path)


def validate_unique(value: str, known_values: set[str], path: str) -> FieldErrors:
    """Yield an error if the value was seen before, and add it to `known_values`."""
    if value in known_values:
        yield FieldError.duplicate(path, value)
    known_values.add(value)


def validate_immutable(new: Any, old: Any, path: str) -> FieldErrors:
    """Yield an error if an immutable value has changed."""
    if not is_same(new, old):
        yield FieldError.invalid(path, new if isinstance(new, str) else encode_error_value(new), IMMUTABLE)


def has_backsteps(path: str) -> bool:
    """Whether the path has a ".." segment."""
    return ".." in path and ".." in path.split("/")


def validate_path_no_backsteps(path: str, field_path: str) -> FieldErrors:
    if has_backsteps(path):
        yield FieldError.invalid(field_path, path, "must not contain '..'")


def validate_local_descending_path(path: str, field_path: str) -> FieldErrors:
    """Yield errors unless the path is relative and has no ".." segment."""
    if path.startswith("/"):
        yield FieldError.invalid(field_path, path, "must be a relative path")
    yield from validate_path_no_backsteps(path, field_path)


def validate_local_non_reserved_path(path: str, field_path: str) -> FieldErrors:
    """Yield errors unless the path is descending and does not start with "..", a prefix that the kubelet reserves."""
    if "." not in path and not path.startswith("/"):
        return
    yield from validate_local_descending_path(path, field_path)
    if path.startswith("..") and not path.startswith("../"):
        yield FieldError.invalid(field_path, path, "must not start with '..'")


def is_bad_mode(mode: int | None) -> bool:
    return mode is not None and not 0 <= mode <= 0o777


def validate_file_mode(mode: int | None, path: str) -> FieldErrors:
    if is_bad_mode(mode):
        yield FieldError.invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive")


_encode = msgspec.json.Encoder(order="deterministic").encode


def is_same(new: object, old: object) -> bool:
    """Whether two values are the same JSON, ignoring the order of keys.

    In contrast to `==`, 1 and true are different. The difference matters in free-form values such as the parameters of
    a driver.
    """
    return new == old and (isinstance(new, str) or _encode(new) == _encode(old))


_STATUSES = ("False", "True", "Unknown")
_MAX_REASON_LENGTH, _MAX_MESSAGE_LENGTH = 1024, 32 * 1024
_reason = names.NameFormat(
    pattern=r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?",
    message="a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
    "'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', REGEX)",
)


def validate_conditions(conditions: Sequence[Condition], path: str) -> FieldErrors:
    types: set[str] = set()
    for index, condition in enumerate(conditions):
        yield from validate_unique(condition.type, types, f"{path}[{index}].type")
        yield from _validate_condition(condition, f"{path}[{index}]")


def _validate_condition(condition: Condition, path: str) -> FieldErrors:
    yield from validate_qualified_name(condition.type, f"{path}.type")
    yield from validate_optional_one_of(condition.status, _STATUSES, f"{path}.status")
    if condition.observedGeneration < 0:
        text = "must be greater than or equal to zero"
        yield FieldError.invalid(f"{path}.observedGeneration", condition.observedGeneration, text)
    if condition.lastTransitionTime is None:
        yield FieldError.required(f"{path}.lastTransitionTime")
    yield from _validate_reason(condition.reason, f"{path}.reason")
    if names.size(condition.message) > _MAX_MESSAGE_LENGTH:
        yield FieldError.too_long(f"{path}.message", _MAX_MESSAGE_LENGTH)


def _validate_reason(reason: str, path: str) -> FieldErrors:
    if not reason:
        yield FieldError.required(path)
        return
    for text in _reason(reason):
        yield FieldError.invalid(path, reason, text)
    if names.size(reason) > _MAX_REASON_LENGTH:
        yield FieldError.too_long(path, _MAX_REASON_LENGTH)


_LINK_LOCAL_MULTICAST = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))
_MAX_ADDRESS_LENGTH = 64
"""Longer strings cannot be valid addresses and are kept out of the caches of parsed results."""


def validate_endpoint_ip(text: str, path: str) -> Iterator[FieldError]:
    """Yield an error if the text is not an IP address that an endpoint can have."""
    for detail in _endpoint_details[text] if len(text) <= _MAX_ADDRESS_LENGTH else ("must be a valid IP address",):
        yield FieldError.invalid(path, text, detail)


def _list_endpoint_details(text: str) -> tuple[str, ...]:
    parsed = addresses.parse(text)
    if parsed is None:
        return ("must be a valid IP address",)
    address = addresses.unmap_address(parsed)
    rules = (
        (address.is_unspecified, f"may not be unspecified ({text})"),
        (address.is_loopback, "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (address.is_link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        (
            any(address in network for network in _LINK_LOCAL_MULTICAST),
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
        ),
    )
    return tuple(detail for is_so, detail in rules if is_so)


_endpoint_details = BoundedCache(_list_endpoint_details, max_entries=8192)


def ip_warnings(text: str, path: str) -> Iterator[str]:
    """Yield a warning if the IP address is accepted although it is not in canonical form."""
    if warning := _ip_warnings[text] if len(text) <= _MAX_ADDRESS_LENGTH else "":
        yield f"{path}: {warning}"


def _find_ip_warning(text: str) -> str:
    address = addresses.parse(text)
    if address is None or text == str(address):
        return ""
    mapped = address.ipv4_mapped if address.version == 6 else None
    if mapped is not None or addresses.legacy_ip(text, ""):
        return f"non-standard IP address {quote(text)} is invalid: use {quote(str(mapped or address))}"
    return f"IPv6 address {quote(text)} should be in RFC 5952 canonical format ({quote(str(address))})"


_ip_warnings = BoundedCache(_find_ip_warning, max_entries=8192)


def cidr_warnings(text: str, path: str) -> Iterator[str]:
    """Yield warnings if the CIDR is accepted although it is ambiguous or not in canonical form."""
    for warning in _cidr_warnings[text] if len(text) <= _MAX_ADDRESS_LENGTH else ():
        yield f"{path}: {warning}"


def _list_cidr_warnings(text: str) -> tuple[str, ...]:
    start, _, bits = text.partition("/")
    address = addresses.parse(start)
    prefix = parse_int64(bits) if bits.isdigit() else None
    if address is None or prefix is None or prefix > address.max_prefixlen:
        return ()
    network = ipaddress.ip_network(f"{address}/{prefix}", strict=False)
    warnings = []
    if network.network_address != address:
        either = f"{quote(str(network))} or {quote(f'{address}/{address.max_prefixlen}')}"
        warnings.append(f"CIDR value {quote(text)} is ambiguous in this context (should be {either}?)")
    if addresses.legacy_ip(start, "") or bits != str(prefix):
        warnings.append(f"non-standard CIDR value {quote(text)} is invalid: use {quote(str(network))}")
    if not warnings and text != str(network):
        canonical = f"should be in RFC 5952 canonical format ({quote(str(network))})"
        warnings.append(f"IPv6 CIDR value {quote(text)} {canonical}")
    return tuple(warnings)


_cidr_warnings = BoundedCache(_list_cidr_warnings, max_entries=4096)
