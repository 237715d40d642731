"""The checks that a tag refers to by name (`+k8s:customValidation`), by type and field."""

from collections.abc import Iterable, Mapping
from typing import Any

from sampan.api.field_errors import FieldError
from sampan.apiserver.registry.declarative.checks import Check

_RESERVED_DOMAINS = (".k8s.io", ".kubernetes.io")
_MAX_RESERVED_PRIORITY = 999


def _check_domain(value: Any, old: Any, path: str, update: bool) -> Iterable[FieldError]:
    domain = value.partition("/")[0].lower().strip().rstrip(".")
    if f".{domain}".endswith(_RESERVED_DOMAINS):
        listed = ", ".join(f"*{suffix}" for suffix in _RESERVED_DOMAINS)
        yield FieldError.invalid(path, value, f"domain names {listed} are reserved")


def _check_priority(value: Any, old: Any, path: str, update: bool) -> Iterable[FieldError]:
    if value is not None and 0 <= value <= _MAX_RESERVED_PRIORITY:
        text = "priorities 0-999 are reserved for responders with *.k8s.io suffix"
        yield FieldError.invalid(path, value, text)


CUSTOM_CHECKS: Mapping[str, Check] = {
    "EvictionRequestSpec.requester": _check_domain,
    "EvictionResponder.name": _check_domain,
    "EvictionResponder.priority": _check_priority,
}
