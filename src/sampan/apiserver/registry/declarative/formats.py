"""The named formats of strings (`+k8s:format`); each yields the errors of a value."""

import re
from collections.abc import Callable, Iterator, Mapping

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.go_compat.gotext import quote

Format = Callable[[str, str], Iterator[FieldError]]
_MAX_DOMAIN_BYTES, _MAX_IDENTIFIER_BYTES = 63, 32
_is_uuid = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch


def _format(list_errors: Callable[[str], list[str]]) -> Format:
    def check(value: str, path: str) -> Iterator[FieldError]:
        for text in list_errors(value):
            yield FieldError.invalid(path, value, _BYTES.get(text, text))

    return check


_BYTES = {names.too_long_message(limit): names.too_long_message(limit, "bytes") for limit in (63, 253)}
"""Declarative validation calls the length of names by its unit; elsewhere the messages say characters."""


def _list_prefixed_key_errors(value: str) -> list[str]:
    if messages := names.label_key(value):
        return messages
    return [] if "/" in value else ["must include a prefix (e.g. 'example.com/key')"]


def _list_uuid_errors(value: str) -> list[str]:
    return [] if _is_uuid(value) else ["must be a lowercase UUID in 8-4-4-4-12 format"]


def _check_pool_name(value: str, path: str) -> Iterator[FieldError]:
    if names.size(value) > names.SUBDOMAIN_MAX:
        yield FieldError.too_long(path, names.SUBDOMAIN_MAX)
    for index, part in enumerate(value.split("/")):
        if not part:
            yield FieldError.invalid(path, value, f"segment {index}: must not be empty")
            continue
        for text in names.dns1123_subdomain(part):
            yield FieldError.invalid(path, part, f"segment {index}: {_BYTES.get(text, text)}")


def _check_extended_resource_name(value: str, path: str) -> Iterator[FieldError]:
    if "/" not in value:
        text = "a name must be a domain-prefixed path, such as 'example.com/my-prop'"
        yield FieldError.invalid(path, value, text)
    elif "kubernetes.io/" in value:
        yield FieldError.invalid(path, value, f"must not have {quote('kubernetes.io/')} domain")
    if value.startswith("requests."):
        yield FieldError.invalid(path, value, f"must not have {quote('requests.')} prefix")
    for text in names.label_key(f"requests.{value}"):
        yield FieldError.invalid(path, value, text)


def _check_fully_qualified_name(value: str, path: str) -> Iterator[FieldError]:
    parts = value.split("/")
    if len(parts) == 2:
        yield from _check_domain(parts[0], path)
    if len(parts) <= 2:
        if len(parts) == 2 and not parts[1]:
            yield FieldError.invalid(path, "", "name must not be empty")
        else:
            yield from _check_identifier(parts[-1], path)
    if len(parts) == 1:
        text = "a fully qualified name must be a domain and a name separated by a slash"
        yield FieldError.invalid(path, value, text)


def _check_domain(domain: str, path: str) -> Iterator[FieldError]:
    if not domain:
        yield FieldError.invalid(path, "", "prefix must not be empty")
        return
    if names.size(domain) > _MAX_DOMAIN_BYTES:
        yield FieldError.too_long(path, _MAX_DOMAIN_BYTES)
    for text in names.dns1123_subdomain(domain):
        yield FieldError.invalid(path, domain, f"prefix: {_BYTES.get(text, text)}")


def _check_identifier(identifier: str, path: str) -> Iterator[FieldError]:
    if names.size(identifier) > _MAX_IDENTIFIER_BYTES:
        yield FieldError.too_long(path, _MAX_IDENTIFIER_BYTES)
    for text in names.c_identifier(identifier):
        yield FieldError.invalid(path, identifier, text)


FORMATS: Mapping[str, Format] = {
    "k8s-extended-resource-name": _check_extended_resource_name,
    "k8s-label-key": _format(names.label_key),
    "k8s-label-value": _format(names.label_value),
    "k8s-long-name": _format(names.dns1123_subdomain),
    "k8s-long-name-caseless": _format(names.dns1123_subdomain_caseless),
    "k8s-path-segment-name": _format(names.path_segment),
    "k8s-prefixed-label-key": _format(_list_prefixed_key_errors),
    "k8s-resource-fully-qualified-name": _check_fully_qualified_name,
    "k8s-resource-pool-name": _check_pool_name,
    "k8s-short-name": _format(names.dns1123_label),
    "k8s-uuid": _format(_list_uuid_errors),
}
