"""LimitRanger: defaults and limits for the resources of containers, pods and claims in a namespace.

The counterpart is `plugin/pkg/admission/limitranger`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sampan.api.field_errors import join_messages
from sampan.api.resources.resource import Resource
from sampan.api.semantics.pod_resources import Amounts, pod_limits, pod_requests, sum_amounts
from sampan.api.types.core_v1 import Container, LimitRange, LimitRangeItem, PersistentVolumeClaim, Pod, PodSpec
from sampan.api.values.quantity import MAX_INT64, Quantity, parse
from sampan.apiserver.admission.framework import lookup
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation

_MAX_MILLI = MAX_INT64 // 1000
_POD_LEVEL_RESOURCES = ("cpu", "memory")
_ZERO = Quantity()


def pod_violations(pod: Pod, limit_range: LimitRange) -> list[str]:
    messages: list[str] = []
    for item in limit_range.spec.limits or ():
        if item.type == "Container":
            for container in (*(pod.spec.containers or ()), *pod.spec.initContainers):
                own = container.resources
                messages += _item_violations(item, sum_amounts([own.requests]), sum_amounts([own.limits]))
        elif item.type == "Pod":
            messages += _item_violations(item, *_compute_pod_amounts(pod.spec))
    return messages


def claim_violations(claim: PersistentVolumeClaim, limit_range: LimitRange) -> list[str]:
    requests, messages = sum_amounts([claim.spec.resources.requests]), []
    for item in limit_range.spec.limits or ():
        if item.type == "PersistentVolumeClaim":
            messages += [*_min_constraint(item, requests, {}), *_max_request_constraint(item, requests)]
    return messages


def _compute_pod_amounts(spec: PodSpec) -> tuple[Amounts, Amounts]:
    """Return the requests and limits of a pod: those of the pod itself, otherwise the sums over its containers."""
    requests, limits = pod_requests(spec), pod_limits(spec)
    if spec.resources is not None:
        for total, own in ((requests, spec.resources.requests), (limits, spec.resources.limits)):
            total.update({name: parse(own[name]) for name in _POD_LEVEL_RESOURCES if name in own})
    return requests, limits


def _item_violations(item: LimitRangeItem, requests: Amounts, limits: Amounts) -> Iterator[str]:
    yield from _min_constraint(item, requests, limits)
    yield from _max_constraint(item, requests, limits)
    yield from _limit_request_ratio_constraint(item, requests, limits)


def _bounds(quantities: Mapping[str, str]) -> Iterator[tuple[str, Quantity]]:
    for name in sorted(quantities):
        yield name, parse(quantities[name])


def _min_constraint(item: LimitRangeItem, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, minimum in _bounds(item.min):
        start = f"minimum {name} usage per {item.type} is {minimum}"
        request, limit = requests.get(name), limits.get(name)
        requested, limited, bound = _scale_to_common_unit(request or _ZERO, limit or _ZERO, minimum)
        if request is None:
            yield f"{start}.  No request is specified"
        elif requested < bound:
            yield f"{start}, but request is {request}"
        elif limit is not None and limited < bound:
            yield f"{start}, but limit is {limit}"


def _max_constraint(item: LimitRangeItem, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, maximum in _bounds(item.max):
        start = f"maximum {name} usage per {item.type} is {maximum}"
        request, limit = requests.get(name), limits.get(name)
        requested, limited, bound = _scale_to_common_unit(request or _ZERO, limit or _ZERO, maximum)
        if limit is None:
            yield f"{start}.  No limit is specified"
        elif limited > bound:
            yield f"{start}, but limit is {limit}"
        elif request is not None and requested > bound:
            yield f"{start}, but request is {request}"


def _max_request_constraint(item: LimitRangeItem, requests: Amounts) -> Iterator[str]:
    for name, maximum in _bounds(item.max):
        start = f"maximum {name} usage per {item.type} is {maximum}"
        request = requests.get(name)
        requested, _, bound = _scale_to_common_unit(request or _ZERO, _ZERO, maximum)
        if request is None:
            yield f"{start}.  No request is specified"
        elif requested > bound:
            yield f"{start}, but request is {request}"


def _limit_request_ratio_constraint(item: LimitRangeItem, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, maximum in _bounds(item.maxLimitRequestRatio):
        start = f"{name} max limit to request ratio per {item.type} is {maximum}"
        requested, limited, _ = _scale_to_common_unit(requests.get(name, _ZERO), limits.get(name, _ZERO), maximum)
        if not requested:
            yield f"{start}, but no request is specified or request is 0"
        elif not limited:
            yield f"{start}, but no limit is specified or limit is 0"
        elif limited / requested * 1000 > maximum.milli_value():
            yield f"{start}, but provided ratio is {limited / requested:f}"


def _scale_to_common_unit(*amounts: Quantity) -> list[int]:
    """Return the quantities in thousandths, or in units if one of them would overflow."""
    scale = -3 if all(amount.value() <= _MAX_MILLI for amount in amounts) else 0
    return [amount.scaled_value(scale) for amount in amounts]


ANNOTATION = "kubernetes.io/limit-ranger"


def set_default_resources(pod: Pod, limit_range: LimitRange) -> None:
    requests, limits = _defaults(limit_range)
    if not requests and not limits:
        return
    notes = []
    for kind, containers in (("container", pod.spec.containers or ()), ("init container", pod.spec.initContainers)):
        for container in containers:
            notes += _fill_defaults(kind, container, requests, limits)
    if notes:
        pod.metadata.annotations[ANNOTATION] = f"LimitRanger plugin set: {'; '.join(notes)}"


def _defaults(limit_range: LimitRange) -> tuple[dict[str, str], dict[str, str]]:
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    for item in limit_range.spec.limits or ():
        if item.type == "Container":
            requests |= item.defaultRequest
            limits |= item.default
    return requests, limits


def _fill_defaults(
    kind: str, container: Container, requests: Mapping[str, str], limits: Mapping[str, str]
) -> list[str]:
    notes = []
    own = container.resources
    for word, defaults, amounts in (("request", requests, own.requests), ("limit", limits, own.limits)):
        missing = sorted(defaults.keys() - amounts.keys())
        amounts.update({name: defaults[name] for name in missing})
        if missing:
            notes.append(f"{', '.join(missing)} {word} for {kind} {container.name}")
    return notes


class LimitRanger:
    name = "LimitRanger"

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        if resource.group != "":
            return False
        if resource.plural == "persistentvolumeclaims":
            return operation in ("CREATE", "UPDATE") and not subresource
        return resource.plural == "pods" and (operation, subresource) in (("CREATE", ""), ("UPDATE", "resize"))

    async def admit(self, attributes: AdmissionAttributes) -> None:
        if attributes.resource.plural == "pods":
            for limit_range in await _ranges(attributes):
                set_default_resources(attributes.obj, limit_range)

    async def validate(self, attributes: AdmissionAttributes) -> None:
        violations_of = pod_violations if attributes.resource.plural == "pods" else claim_violations
        for limit_range in await _ranges(attributes):
            if violations := violations_of(attributes.obj, limit_range):
                raise attributes.forbidden(join_messages(violations))


async def _ranges(attributes: AdmissionAttributes) -> list[LimitRange]:
    """Return the limit ranges of the namespace; none for an object that is being deleted."""
    old = attributes.old
    if old is not None and old.metadata.deletionTimestamp is not None:
        return []
    return await lookup.list_in_namespace(
        attributes.registry.open_store_of("", "v1", "LimitRange"), attributes.namespace
    )
