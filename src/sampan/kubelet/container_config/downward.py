"""Pure computation of downward API values: fields of the pod and resources of its containers (`pkg/fieldpath`)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sampan.api.go_compat import gotext
from sampan.api.types.core_v1 import Container, Pod, ResourceFieldSelector
from sampan.api.values import quantity
from sampan.api.values.quantity import Quantity

_SUBSCRIPT = re.compile(r"(?P<path>metadata\.(?:labels|annotations))\['(?P<key>.*)'\]", re.DOTALL)
_ROUNDED_TO_MILLI = "cpu"
_LIMITED = ("cpu", "memory", "ephemeral-storage")
"""Resources whose limit defaults to the allocatable amount of the node."""


class FieldUnknown(ValueError):
    """The pod refers to an unsupported field or resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DownwardApiContext:
    """The values besides the pod itself that downward API fields may refer to."""

    node_name: str = ""
    host_ips: Sequence[str] = ()
    pod_ips: Sequence[str] = ()
    allocatable: Mapping[str, str] | None = None
    """Allocatable resources of the node."""


def field_value(pod: Pod, path: str, context: DownwardApiContext) -> str:
    """Return the value of the field. Raise FieldUnknown if it is not supported."""
    meta = pod.metadata
    match path:
        case "metadata.name":
            return meta.name
        case "metadata.namespace":
            return meta.namespace
        case "metadata.uid":
            return meta.uid
        case "metadata.labels":
            return _lines(meta.labels)
        case "metadata.annotations":
            return _lines(meta.annotations)
        case "spec.nodeName":
            return pod.spec.nodeName
        case "spec.serviceAccountName":
            return pod.spec.serviceAccountName
        case "spec.host":
            return pod.spec.nodeName
    return _resolve_subscript(pod, path) if "[" in path else _addresses(path, context)


def _resolve_subscript(pod: Pod, path: str) -> str:
    match = _SUBSCRIPT.fullmatch(path)
    if match is None:
        raise FieldUnknown(f"fieldPath {gotext.quote(path)} does not support subscript")
    values = pod.metadata.labels if match["path"] == "metadata.labels" else pod.metadata.annotations
    return values.get(match["key"], "")


def _addresses(path: str, context: DownwardApiContext) -> str:
    match path:
        case "status.hostIP":
            return context.host_ips[0] if context.host_ips else ""
        case "status.hostIPs":
            return ",".join(context.host_ips)
        case "status.podIP":
            return context.pod_ips[0] if context.pod_ips else ""
        case "status.podIPs":
            return ",".join(context.pod_ips)
    raise FieldUnknown(f"unsupported fieldPath: {path}")


def _lines(values: Mapping[str, str]) -> str:
    return "\n".join(f"{key}={gotext.quote(values[key])}" for key in sorted(values))


def resource_value(container: Container, selector: ResourceFieldSelector, allocatable: Mapping[str, str]) -> str:
    """Return the amount in units of the divisor, rounded up. A missing limit defaults to the node's allocatable."""
    which, dot, name = selector.resource.partition(".")
    if which not in ("limits", "requests") or not dot or not (name in _LIMITED or name.startswith("hugepages-")):
        raise FieldUnknown(f"unsupported container resource : {selector.resource}")
    amounts = container.resources.limits if which == "limits" else container.resources.requests
    text = amounts.get(name)
    if text is None and which == "limits" and name in _LIMITED:
        text = allocatable.get(name)
    if text is None and which == "requests":
        text = container.resources.limits.get(name)
    divisor = quantity.parse(str(selector.divisor or "1"))
    if not divisor:
        divisor = quantity.parse("1")
    return str(_divide(quantity.parse(text or "0"), divisor, in_milli=name == _ROUNDED_TO_MILLI))


def _divide(amount: Quantity, divisor: Quantity, *, in_milli: bool) -> int:
    if in_milli:
        return math.ceil(amount.milli_value() / divisor.milli_value())
    return math.ceil(amount.value() / divisor.value())
