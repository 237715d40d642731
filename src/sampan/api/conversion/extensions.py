"""CustomResourceDefinition: v1 and v1beta1, which kube-apiserver still uses as storage version.

v1beta1 may specify schema, subresources, printer columns and selectable fields once for all versions; v1 specifies them
per version.
"""

from typing import Any

Value = dict[str, Any]
SHARED = {
    "validation": "schema",
    "subresources": "subresources",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}
"""Maps fields that v1beta1's spec may set for all versions to their names in a version."""


def to_v1(definition: Value) -> Value:
    spec = definition.get("spec") or {}
    shared = {name: spec[key] for key, name in SHARED.items() if spec.get(key)}
    versions = spec.get("versions") or [{"name": spec.get("version", ""), "served": True, "storage": True}]
    other_fields = {key: value for key, value in spec.items() if key not in (*SHARED, "version", "conversion")}
    other_fields["versions"] = [_columns({**shared, **version}, "JSONPath", "jsonPath") for version in versions]
    return {**definition, "spec": other_fields | _conversion_to_v1(spec.get("conversion"))}


def to_v1beta1(definition: Value) -> Value:
    spec = definition.get("spec") or {}
    versions = spec.get("versions") or []
    other_fields = {key: value for key, value in spec.items() if key != "conversion"}
    other_fields |= {"version": versions[0]["name"]} if versions else {}
    other_fields["versions"] = [_columns(version, "jsonPath", "JSONPath") for version in versions]
    return {**definition, "spec": other_fields | _conversion_to_v1beta1(spec.get("conversion"))}


def _columns(version: Value, old: str, new: str) -> Value:
    if not version.get("additionalPrinterColumns"):
        return version
    columns = [{new if k == old else k: v for k, v in c.items()} for c in version["additionalPrinterColumns"]]
    return {**version, "additionalPrinterColumns": columns}


def _conversion_to_v1(conversion: Value | None) -> Value:
    if conversion is None:
        return {}
    webhook = {"conversionReviewVersions": conversion.get("conversionReviewVersions") or []}
    if conversion.get("webhookClientConfig") is not None:
        webhook["clientConfig"] = conversion["webhookClientConfig"]
    has_webhook = bool(webhook["conversionReviewVersions"]) or "clientConfig" in webhook
    return {"conversion": {"strategy": conversion.get("strategy", "")} | ({"webhook": webhook} if has_webhook else {})}


def _conversion_to_v1beta1(conversion: Value | None) -> Value:
    if conversion is None:
        return {}
    webhook, converted = conversion.get("webhook") or {}, {"strategy": conversion.get("strategy", "")}
    converted |= {"webhookClientConfig": webhook["clientConfig"]} if webhook.get("clientConfig") is not None else {}
    if webhook.get("conversionReviewVersions"):
        converted["conversionReviewVersions"] = webhook["conversionReviewVersions"]
    return {"conversion": converted}
