"""Descriptions of namespaces, quotas, limits, config maps, secrets and priority classes.

Only the sizes of values in Secrets are printed. kubectl also prints service account tokens; this command does not,
because terminal output ends up in logs.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any

from sampan.kubectl.describers.cluster_view import ClusterView
from sampan.kubectl.describers.layout import (
    Lines,
    Value,
    conditions,
    format_labels,
    go_text,
    heading,
    items,
    meta,
    part,
)

_LIMIT_TITLES = ("Type", "Resource", "Min", "Max", "Default Request", "Default Limit", "Max Limit/Request Ratio")
_LIMIT_FIELDS = ("min", "max", "defaultRequest", "default", "maxLimitRequestRatio")
_SCOPES = {
    "Terminating": (
        "Matches all pods that have an active deadline. These pods have a limited lifespan on a node before being "
        "actively terminated by the system."
    ),
    "NotTerminating": (
        "Matches all pods that do not have an active deadline. These pods usually include long running pods whose "
        "container command is not expected to terminate."
    ),
    "BestEffort": (
        "Matches all pods that do not have resource requirements set. These pods have a best effort quality of service."
    ),
    "NotBestEffort": (
        "Matches all pods that have at least one resource requirement set. These pods have a burstable or guaranteed "
        "quality of service."
    ),
}


def describe_namespace(obj: Value, view: ClusterView) -> Lines:
    name = str(meta(obj).get("name", ""))
    yield from heading(obj, has_namespace=False)
    yield f"Status:\t{part(obj, 'status').get('phase', '')}"
    yield from conditions(obj, has_times=True)
    quotas = view.list_if_served(f"/api/v1/namespaces/{name}/resourcequotas")
    limits = view.list_if_served(f"/api/v1/namespaces/{name}/limitranges")
    if quotas is not None:
        yield ""
        yield from _namespace_quotas(quotas)
    if limits is not None:
        yield ""
        yield from _namespace_limits(limits)


def _namespace_quotas(quotas: Sequence[Value]) -> Lines:
    if not quotas:
        yield "No resource quota."
        return
    yield "Resource Quotas"
    for quota in sorted(quotas, key=lambda entry: str(meta(entry).get("name", ""))):
        yield f"  Name:\t{meta(quota).get('name')}"
        yield from (f"  {line}" for line in _scopes(quota, "* "))
        yield "  Resource\tUsed\tHard"
        yield "  --------\t---\t---"
        yield from (f"  {name}\t{used}\t{hard}" for name, used, hard in _quota_rows(quota))


def _namespace_limits(limit_ranges: Sequence[Value]) -> Lines:
    if not limit_ranges:
        yield "No LimitRange resource."
        return
    yield "Resource Limits"
    yield " " + "\t".join(_LIMIT_TITLES)
    yield " " + "\t".join("-" * len(title) for title in _LIMIT_TITLES)
    for limit_range in limit_ranges:
        yield from _limit_rows(limit_range, " ")


def _limit_rows(limit_range: Value, indent: str) -> Lines:
    for limit in items(limit_range, "spec", "limits"):
        names: dict[str, None] = {}
        for field in _LIMIT_FIELDS:
            names |= dict.fromkeys(part(limit, field))
        for name in sorted(names):
            values = [str(part(limit, field).get(name, "-")) for field in _LIMIT_FIELDS]
            yield f"{indent}{limit.get('type')}\t{name}\t" + "\t".join(values)


def describe_limit_range(obj: Value, view: ClusterView) -> Lines:
    yield f"Name:\t{meta(obj).get('name')}"
    yield f"Namespace:\t{meta(obj).get('namespace')}"
    yield "\t".join(_LIMIT_TITLES)
    yield "\t".join("-" * len(title) for title in _LIMIT_TITLES)
    yield from _limit_rows(obj, "")


def _scopes(quota: Value, bullet: str) -> Lines:
    scopes = sorted(items(quota, "spec", "scopes"))
    if scopes:
        yield f"Scopes:\t{', '.join(scopes)}"
        yield from (f"{bullet}{_SCOPES[scope]}" for scope in scopes if scope in _SCOPES)


def _quota_rows(quota: Value) -> list[tuple[str, str, str]]:
    used = part(quota, "status", "used")
    return [(name, str(used.get(name, "0")), str(hard)) for name, hard in sorted(part(quota, "status", "hard").items())]


def describe_quota(obj: Value, view: ClusterView) -> Lines:
    yield f"Name:\t{meta(obj).get('name')}"
    yield f"Namespace:\t{meta(obj).get('namespace')}"
    yield from _scopes(obj, " * ")
    yield "Resource\tUsed\tHard"
    yield "--------\t----\t----"
    yield from (f"{name}\t{_match_format(used, hard)}\t{hard}" for name, used, hard in _quota_rows(obj))


def _match_format(amount: str, model: str) -> str:
    """Return an amount with the kind of suffix that another amount has."""
    from sampan.api.values.quantity import Quantity, QuantityError, parse

    try:
        quantity, format = parse(amount), parse(model).format
    except QuantityError:
        return amount
    return amount if quantity.format == format else str(Quantity(quantity.value(), format=format))


def describe_config_map(obj: Value, view: ClusterView) -> Lines:
    yield from heading(obj)
    yield ""
    yield "Data"
    yield "===="
    for key, text in sorted((obj.get("data") or {}).items()):
        yield f"{key}:"
        yield "----"
        yield str(text)
        yield ""
    yield ""
    yield "BinaryData"
    yield "===="
    yield from (f"{key}: {_size(data)} bytes" for key, data in sorted((obj.get("binaryData") or {}).items()))
    yield ""
    yield from view.events(obj, kind="ConfigMap")


def describe_secret(obj: Value, view: ClusterView) -> Lines:
    yield from heading(obj)
    yield ""
    yield f"Type:\t{obj.get('type', '')}"
    yield ""
    yield "Data"
    yield "===="
    yield from (f"{key}:\t{_size(data)} bytes" for key, data in sorted((obj.get("data") or {}).items()))


def _size(encoded: Any) -> int:
    """Return the number of bytes that a base64 text encodes."""
    try:
        return len(base64.b64decode(str(encoded or "")))
    except binascii.Error:
        return len(str(encoded))


def describe_priority_class(obj: Value, view: ClusterView) -> Lines:
    yield f"Name:\t{meta(obj).get('name')}"
    yield f"Value:\t{obj.get('value', 0)}"
    yield f"GlobalDefault:\t{go_text(bool(obj.get('globalDefault')))}"
    yield f"PreemptionPolicy:\t{obj.get('preemptionPolicy', '')}"
    yield f"Description:\t{obj.get('description', '')}"
    yield f"Annotations:\t{format_labels(meta(obj).get('annotations'))}"
    yield from view.events(obj, kind="PriorityClass")
