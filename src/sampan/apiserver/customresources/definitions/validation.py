"""Validation of a CustomResourceDefinition's names, API approval and conversion, and formats that are unknown."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.types.apiextensions_v1 import (
    CustomResourceConversion,
    CustomResourceDefinition,
    CustomResourceDefinitionNames,
    CustomResourceValidation,
    JSONSchemaProps,
)
from sampan.apiserver.registry.admission_configs.webhooks import (
    has_known,
    validate_client_config,
    validate_review_versions,
)
from sampan.apiserver.registry.validation import FieldErrors, validate_one_of, validate_required

APPROVAL_ANNOTATION = "api-approved.kubernetes.io"
_SEE = "see https://github.com/kubernetes/enhancements/pull/1111"
_PROTECTED = ("k8s.io", "kubernetes.io")
_MIXED = "may have mixed case, but should otherwise match: "


def validate_required_names(crd_names: CustomResourceDefinitionNames, path: str) -> FieldErrors:
    for field in ("plural", "singular", "kind", "listKind"):
        yield from validate_required(getattr(crd_names, field), f"{path}.{field}")


def validate_names(crd_names: CustomResourceDefinitionNames, path: str) -> FieldErrors:
    for field in ("plural", "singular"):
        yield from _validate_dns_label(getattr(crd_names, field), f"{path}.{field}")
    for field in ("kind", "listKind"):
        value = getattr(crd_names, field)
        if value and (messages := names.dns1035_label(value.lower())):
            yield FieldError.invalid(f"{path}.{field}", value, _MIXED + ",".join(messages))
    for index, short in enumerate(crd_names.shortNames):
        yield from _validate_dns_label(short, f"{path}.shortNames[{index}]", is_needed=True)
    if crd_names.kind and crd_names.kind == crd_names.listKind:
        yield FieldError.invalid(f"{path}.listKind", crd_names.listKind, "kind and listKind may not be the same")
    for index, category in enumerate(crd_names.categories):
        yield from _validate_dns_label(category, f"{path}.categories[{index}]", is_needed=True)


def _validate_dns_label(value: str, path: str, *, is_needed: bool = False) -> FieldErrors:
    if (value or is_needed) and (messages := names.dns1035_label(value)):
        yield FieldError.invalid(path, value, ",".join(messages))


def validate_group(group: str, path: str) -> FieldErrors:
    if not group:
        yield FieldError.required(path)
    elif messages := names.dns1123_subdomain(group):
        yield FieldError.invalid(path, group, ",".join(messages))
    elif "." not in group:
        yield FieldError.invalid(path, group, "should be a domain with at least one dot")


def is_protected(group: str) -> bool:
    """Whether definitions of the group need an API approval."""
    return any(group == domain or group.endswith(f".{domain}") for domain in _PROTECTED)


def validate_api_approval(crd: CustomResourceDefinition, old: CustomResourceDefinition | None) -> FieldErrors:
    group = crd.spec.group
    if not is_protected(group):
        return
    text, path = crd.metadata.annotations.get(APPROVAL_ANNOTATION, ""), f"metadata.annotations[{APPROVAL_ANNOTATION}]"
    if old is not None and approval_state(old.metadata.annotations.get(APPROVAL_ANNOTATION, "")) == approval_state(
        text
    ):
        return
    start = f'protected groups must have approval annotation "{APPROVAL_ANNOTATION}"'
    if not text:
        yield FieldError.required(path, f"{start}, {_SEE}")
    elif not approval_state(text):
        why = f'{start} with either a URL or a reason starting with "unapproved", {_SEE}'
        yield FieldError.invalid(path, text, why)


def approval_state(text: str) -> str:
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


_STRATEGIES = ("None", "Webhook")


def validate_conversion(
    conversion: CustomResourceConversion, old: CustomResourceConversion | None, path: str
) -> FieldErrors:
    yield from validate_one_of(conversion.strategy, _STRATEGIES, f"{path}.strategy")
    webhook = conversion.webhook
    client, versions = (webhook.clientConfig, webhook.conversionReviewVersions) if webhook is not None else (None, None)
    if conversion.strategy != "Webhook":
        text = "should not be set when strategy is not set to Webhook"
        if client is not None:
            yield FieldError.forbidden(f"{path}.webhookClientConfig", text)
        if versions:
            yield FieldError.forbidden(f"{path}.conversionReviewVersions", text)
        return
    if client is None:
        yield FieldError.required(f"{path}.webhookClientConfig", "required when strategy is set to Webhook")
    else:
        yield from validate_client_config(client, f"{path}.webhookClientConfig")
    yield from validate_review_versions(
        versions or [], f"{path}.conversionReviewVersions", needs_known=_has_known_review_version(old)
    )


def _has_known_review_version(conversion: CustomResourceConversion | None) -> bool:
    """Whether the conversion lists a known version of ConversionReview, or none at all."""
    webhook = conversion.webhook if conversion is not None else None
    versions = webhook.conversionReviewVersions if webhook is not None else None
    return not versions or has_known(versions)


_TEXT_FORMATS = frozenset(
    [
        *("bsonobjectid", "uri", "email", "hostname", "ipv4", "ipv6", "cidr", "mac", "uuid", "uuid3", "uuid4", "uuid5"),
        *("isbn", "isbn10", "isbn13", "creditcard", "ssn", "hexcolor", "rgbcolor", "byte", "password", "date"),
        *("duration", "datetime", "k8sshortname", "k8slongname"),
    ]
)
_FORMATS = {"integer": ("int32", "int64"), "number": ("float", "double")}


def unknown_formats(validation: CustomResourceValidation | None) -> Iterator[str]:
    """Yield formats that are unknown and therefore not validated."""
    schema = validation.openAPIV3Schema if validation is not None else None
    for part in _parts(schema) if schema is not None else ():
        if part.format and not _is_known(part.type, part.format):
            yield part.format


def list_set_warnings(validation: CustomResourceValidation | None) -> Iterator[str]:
    """Yield a warning for each set whose items are objects or arrays, which are not compared."""
    schema = validation.openAPIV3Schema if validation is not None else None
    for part in _parts(schema) if schema is not None else ():
        items = part.items
        if part.x_kubernetes_list_type != "set" or not isinstance(items, JSONSchemaProps):
            continue
        if items.type in ("array", "object"):
            yield (
                f'x-kubernetes-list-type: set for items of type "{items.type}" is not supported by server-side apply '
                "or CEL validation rules"
            )


def _is_known(kind: str, name: str) -> bool:
    if kind in ("", "string"):
        return name.replace("-", "") in _TEXT_FORMATS
    return name in _FORMATS.get(kind, ())


def _parts(schema: JSONSchemaProps) -> Iterator[JSONSchemaProps]:
    """Yield the schema and all schemas nested in it, in order."""
    pending = [schema]
    while pending:
        part = pending.pop()
        yield part
        items = part.items if isinstance(part.items, list) else [part.items]
        children: list[JSONSchemaProps | bool | None] = [
            *(*part.allOf, *part.oneOf, *part.anyOf, *part.properties.values(), *part.definitions.values()),
            *(*items, part.not_, part.additionalProperties, part.additionalItems, *part.patternProperties.values()),
        ]
        pending += [child for child in reversed(children) if isinstance(child, JSONSchemaProps)]
