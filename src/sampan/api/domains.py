"""Validation of fully qualified names and domain-prefixed paths."""

import re

from sampan.api import names
from sampan.api.field_errors import FieldError

_HTTP_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_is_http_path = re.compile(_HTTP_PATH).fullmatch


def fully_qualified_name(value: str, field: str) -> list[FieldError]:
    """Validate the name of a webhook: a subdomain of at least three segments."""
    if not value:
        return [FieldError.required(field)]
    if messages := names.dns1123_subdomain(value):
        return [FieldError.invalid(field, value, ",".join(messages))]
    if value.count(".") < 2:
        return [FieldError.invalid(field, value, "should be a domain with at least three segments separated by dots")]
    return []


def fully_qualified_domain_name(value: str, field: str) -> list[FieldError]:
    """Validate a domain of at least two segments; it may end with a dot."""
    if not value:
        return [FieldError.required(field)]
    value = value.removesuffix(".")
    if messages := names.dns1123_subdomain(value):
        return [FieldError.invalid(field, value, ",".join(messages))]
    labels = value.split(".")
    if len(labels) < 2:
        return [FieldError.invalid(field, value, "should be a domain with at least two segments separated by dots")]
    wrong = ((label, names.dns1123_label(label)) for label in labels)
    return [FieldError.invalid(field, label, ",".join(messages)) for label, messages in wrong if messages][:1]


def domain_prefixed_path(value: str, field: str) -> list[FieldError]:
    """Validate a path such as `example.com/any/path`."""
    if not value:
        return [FieldError.required(field)]
    host, _, path = value.partition("/")
    if not host or not path:
        return [FieldError.invalid(field, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = [FieldError.invalid(field, host, message) for message in names.dns1123_subdomain(host)]
    if not _is_http_path(path):
        errors.append(FieldError.invalid(field, path, f"Invalid path (regex used for validation is '{_HTTP_PATH}')"))
    return errors
