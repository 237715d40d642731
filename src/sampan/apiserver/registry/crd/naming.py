"""Validation of a CustomResourceDefinition's names, and of API approval for protected groups."""

from urllib.parse import urlsplit

from sampan.api import names
from sampan.api.faults import FieldError
from sampan.api.types.apiextensions_v1 import CustomResourceDefinition, CustomResourceDefinitionNames
from sampan.apiserver.registry.podspec.formats import FieldErrors, validate_required

_APPROVED = "api-approved.kubernetes.io"
_SEE = "see https://github.com/kubernetes/enhancements/pull/1111"
_PROTECTED = ("k8s.io", "kubernetes.io")
_MIXED = "may have mixed case, but should otherwise match: "


def validate_required_names(crd_names: CustomResourceDefinitionNames, at: str) -> FieldErrors:
    for field in ("plural", "singular", "kind", "listKind"):
        yield from validate_required(getattr(crd_names, field), f"{at}.{field}")


def validate_names(crd_names: CustomResourceDefinitionNames, at: str) -> FieldErrors:
    for field in ("plural", "singular"):
        yield from _validate_dns_label(getattr(crd_names, field), f"{at}.{field}")
    for field in ("kind", "listKind"):
        value = getattr(crd_names, field)
        if value and (messages := names.dns1035_label(value.lower())):
            yield FieldError.invalid(f"{at}.{field}", value, _MIXED + ",".join(messages))
    for index, short in enumerate(crd_names.shortNames):
        yield from _validate_dns_label(short, f"{at}.shortNames[{index}]", is_needed=True)
    if crd_names.kind and crd_names.kind == crd_names.listKind:
        yield FieldError.invalid(f"{at}.listKind", crd_names.listKind, "kind and listKind may not be the same")
    for index, category in enumerate(crd_names.categories):
        yield from _validate_dns_label(category, f"{at}.categories[{index}]", is_needed=True)


def _validate_dns_label(value: str, at: str, *, is_needed: bool = False) -> FieldErrors:
    if (value or is_needed) and (messages := names.dns1035_label(value)):
        yield FieldError.invalid(at, value, ",".join(messages))


def validate_group(group: str, at: str) -> FieldErrors:
    if not group:
        yield FieldError.required(at)
    elif messages := names.dns1123_subdomain(group):
        yield FieldError.invalid(at, group, ",".join(messages))
    elif "." not in group:
        yield FieldError.invalid(at, group, "should be a domain with at least one dot")


def validate_api_approval(crd: CustomResourceDefinition, old: CustomResourceDefinition | None) -> FieldErrors:
    group = crd.spec.group
    if not any(group == domain or group.endswith(f".{domain}") for domain in _PROTECTED):
        return
    text, at = crd.metadata.annotations.get(_APPROVED, ""), f"metadata.annotations[{_APPROVED}]"
    if old is not None and _state(old.metadata.annotations.get(_APPROVED, "")) == _state(text):
        return
    start = f'protected groups must have approval annotation "{_APPROVED}"'
    if not text:
        yield FieldError.required(at, f"{start}, {_SEE}")
    elif not _state(text):
        why = f'{start} with either a URL or a reason starting with "unapproved", {_SEE}'
        yield FieldError.invalid(at, text, why)


def _state(text: str) -> str:
    """Return the state of API approval: missing, bypassed, approved, or "" for an invalid annotation."""
    if not text:
        return "missing"
    if text.startswith("unapproved"):
        return "bypassed"
    try:
        url = urlsplit(text)
    except ValueError:
        return ""
    return "approved" if url.scheme and url.netloc else ""
