"""Validation of names and keys. Each function returns error messages, worded as in kube-apiserver; an empty list means
valid. The checks of fully qualified names and domain-prefixed paths return field errors instead.

`prefix=True` validates a generateName, which may end in a dash. IP addresses and CIDRs are in `addresses`.
"""

import re
from typing import Final, Protocol

from sampan.api.field_errors import FieldError
from sampan.host.bounded_cache import BoundedCache

LABEL_MAX: Final = 63
SUBDOMAIN_MAX: Final = 253

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_UNDERSCORE_LABEL = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_KEY_NAME = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_ENDS = "and must start and end with an alphanumeric character"

_port_characters = re.compile(r"[-a-z0-9]+").fullmatch
_port_letter = re.compile(r"[a-z]").search

_HTTP_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_is_http_path = re.compile(_HTTP_PATH).fullmatch

HUGE_PAGES = "hugepages-"


class NameCheck(Protocol):
    """A function that validates the names of a kind."""

    def __call__(self, value: str, *, prefix: bool = False) -> list[str]: ...


class NameFormat:
    """A validation by a pattern and, with a `limit`, by length in bytes."""

    def __init__(
        self, *, pattern: str, message: str, limit: int = 0, unit: str = "characters", is_caseless: bool = False
    ) -> None:
        flags = re.IGNORECASE | re.ASCII if is_caseless else re.NOFLAG
        self._match = re.compile(pattern.replace("(", "(?:"), flags).fullmatch
        self._message = message.replace("REGEX", f"regex used for validation is '{pattern}'")
        self._limit = limit
        self._too_long = too_long_message(limit, unit)

    def __call__(self, value: str, *, prefix: bool = False) -> list[str]:
        if prefix:
            value = _mask_trailing_dash(value)
        is_match = self._match(value) is not None
        is_long = bool(self._limit) and size(value) > self._limit
        if is_match and not is_long:
            return []
        return [self._too_long] * is_long + [self._message] * (not is_match)

    def matches(self, value: str) -> bool:
        return self._match(value) is not None

    @property
    def message(self) -> str:
        """The error message for a value that does not match the pattern."""
        return self._message


def size(value: str) -> int:
    """Return the length in bytes, which the limits apply to even where their messages say characters."""
    return len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))


def too_long_message(limit: int, unit: str = "characters") -> str:
    return f"must be no more than {limit} {unit}"


def out_of_range_message(low: int, high: int) -> str:
    return f"must be between {low} and {high}, inclusive"


def _mask_trailing_dash(name: str) -> str:
    """Return a generateName as a complete name, with its final dash and the (ASCII) character before replaced by a
    letter."""
    if len(name) < 2 or not name.endswith("-"):
        return name
    return (name[:-2] if name[-2].isascii() else name[:-1]) + "a"


dns1123_subdomain = NameFormat(
    pattern=_SUBDOMAIN,
    message="a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    f"{_ENDS} (e.g. 'example.com', REGEX)",
    limit=SUBDOMAIN_MAX,
)

dns1123_subdomain_caseless = NameFormat(
    pattern=_SUBDOMAIN,
    message="an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', "
    f"{_ENDS} (e.g. 'Example.com', REGEX)",
    limit=SUBDOMAIN_MAX,
    is_caseless=True,
)

dns1123_subdomain_with_underscore = NameFormat(
    pattern=rf"{_UNDERSCORE_LABEL}(\.{_UNDERSCORE_LABEL})*",
    message="a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
    f"{_ENDS} (e.g. 'example.com', REGEX)",
    limit=SUBDOMAIN_MAX,
)
"""The format of the DNS search domains of a pod."""

_dns1123_label = NameFormat(
    pattern=_LABEL,
    message="a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    f"{_ENDS} (e.g. 'my-name',  or '123-abc', REGEX)",
    limit=LABEL_MAX,
)


def dns1123_label(value: str, *, prefix: bool = False) -> list[str]:
    messages = _dns1123_label(value, prefix=prefix)
    if (
        messages
        and messages[-1] is _dns1123_label.message
        and dns1123_subdomain.matches(_mask_trailing_dash(value) if prefix else value)
    ):
        messages[-1] = "must not contain dots"
    return messages


dns1035_label = NameFormat(
    pattern=r"[a-z]([-a-z0-9]*[a-z0-9])?",
    message="a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', REGEX)",
    limit=LABEL_MAX,
)

wildcard_dns1123_subdomain = NameFormat(
    pattern=rf"\*\.{_SUBDOMAIN}",
    message="a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist "
    "of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character "
    "(e.g. '*.example.com', REGEX)",
    limit=SUBDOMAIN_MAX,
)

label_value = NameFormat(
    pattern=rf"({_KEY_NAME})?",
    message="a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    f"{_ENDS} (e.g. 'MyValue',  or 'my_value',  or '12345', REGEX)",
    limit=LABEL_MAX,
    unit="bytes",
)

_key_name = NameFormat(
    pattern=_KEY_NAME,
    message="must consist of alphanumeric characters, '-', '_' or '.', "
    f"{_ENDS} (e.g. 'MyName',  or 'my.name',  or '123-abc', REGEX)",
    limit=LABEL_MAX,
    unit="bytes",
)
_key_prefix = NameFormat(pattern=_SUBDOMAIN, message=dns1123_subdomain.message, limit=SUBDOMAIN_MAX, unit="bytes")


def label_key(value: str) -> list[str]:
    """Validate a qualified name: a name, or a DNS subdomain, a slash and a name."""
    return list(_key_errors[value])


qualified_name = label_key


def _list_key_errors(value: str) -> list[str]:
    *prefixes, name = value.split("/")
    if len(prefixes) > 1:
        return [
            f"a valid label key {_key_name.message} with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')"
        ]
    messages = ["prefix part must be non-empty"] if prefixes == [""] else []
    if prefixes and prefixes[0]:
        messages += [f"prefix part {message}" for message in _key_prefix(prefixes[0])]
    if not name:
        messages.append("name part must be non-empty")
    return messages + [f"name part {message}" for message in _key_name(name)]


_key_errors = BoundedCache(_list_key_errors, max_entries=8192)


c_identifier = NameFormat(
    pattern=r"[A-Za-z_][A-Za-z0-9_]*",
    message="a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
    "characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', REGEX)",
)

percent = NameFormat(
    pattern=r"[0-9]+%",
    message="a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', REGEX)",
)

http_header_name = NameFormat(
    pattern=r"[-A-Za-z0-9]+",
    message="a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', REGEX)",
)


_config_key = NameFormat(
    pattern=r"[-._a-zA-Z0-9]+",
    message="a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', REGEX)",
    limit=SUBDOMAIN_MAX,
)


def env_var_name(value: str) -> list[str]:
    if not value:
        return ["environment variable name must be non-empty"]
    if value.isascii() and value.isprintable() and "=" not in value:
        return []
    return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]


def config_map_key(value: str) -> list[str]:
    """Validate a key of a ConfigMap or Secret."""
    return _config_key(value) + _parent_path_errors(value)


def _parent_path_errors(value: str) -> list[str]:
    if value in (".", ".."):
        return [f"must not be '{value}'"]
    return ["must not start with '..'"] if value.startswith("..") else []


def port_name(value: str) -> list[str]:
    """Validate an IANA service name."""
    checks = (
        (size(value) > 15, too_long_message(15)),
        (not _port_characters(value), "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"),
        (not _port_letter(value), "must contain at least one letter (a-z)"),
        ("--" in value, "must not contain consecutive hyphens"),
        (value.startswith("-") or value.endswith("-"), "must not begin or end with a hyphen"),
    )
    return [message for is_bad, message in checks if is_bad]


def port_number(value: int) -> list[str]:
    return range_errors(value, 1, 65535)


def range_errors(value: int, low: int, high: int) -> list[str]:
    return [] if low <= value <= high else [out_of_range_message(low, high)]


def path_segment(value: str, *, prefix: bool = False) -> list[str]:
    """Validate a name that only has to be a valid URL path segment, as of roles."""
    if not prefix and value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{mark}'" for mark in "/%" if mark in value]


def fully_qualified_name(value: str, field: str) -> list[FieldError]:
    """Validate the name of a webhook: a subdomain of at least three segments."""
    if not value:
        return [FieldError.required(field)]
    if messages := dns1123_subdomain(value):
        return [FieldError.invalid(field, value, ",".join(messages))]
    if value.count(".") < 2:
        return [FieldError.invalid(field, value, "should be a domain with at least three segments separated by dots")]
    return []


def fully_qualified_domain_name(value: str, field: str) -> list[FieldError]:
    """Validate a domain of at least two segments; it may end with a dot."""
    if not value:
        return [FieldError.required(field)]
    value = value.removesuffix(".")
    if messages := dns1123_subdomain(value):
        return [FieldError.invalid(field, value, ",".join(messages))]
    labels = value.split(".")
    if len(labels) < 2:
        return [FieldError.invalid(field, value, "should be a domain with at least two segments separated by dots")]
    wrong = ((label, dns1123_label(label)) for label in labels)
    return [FieldError.invalid(field, label, ",".join(messages)) for label, messages in wrong if messages][:1]


def domain_prefixed_path(value: str, field: str) -> list[FieldError]:
    """Validate a path such as `example.com/any/path`."""
    if not value:
        return [FieldError.required(field)]
    host, _, path = value.partition("/")
    if not host or not path:
        return [FieldError.invalid(field, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = [FieldError.invalid(field, host, message) for message in dns1123_subdomain(host)]
    if not _is_http_path(path):
        errors.append(FieldError.invalid(field, path, f"Invalid path (regex used for validation is '{_HTTP_PATH}')"))
    return errors


def is_huge_pages(name: str) -> bool:
    return name.startswith(HUGE_PAGES)


def is_native_resource(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def is_extended_resource(name: str) -> bool:
    if is_native_resource(name) or name.startswith("requests."):
        return False
    return not qualified_name(f"requests.{name}")


def is_pod_level_resource(name: str) -> bool:
    """Whether the resource is allowed in pod-level resources."""
    return name in ("cpu", "memory") or is_huge_pages(name)
