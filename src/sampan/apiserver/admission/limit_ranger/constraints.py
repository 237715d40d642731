"""Violations of a limit range, with the messages of Kubernetes. Pure."""

from collections.abc import Iterator, Mapping

from sampan.api.quantity import MAX_INT64, Quantity, parse
from sampan.api.semantics.pod_resources import Amounts, pod_limits, pod_requests, summed
from sampan.api.types.core_v1 import LimitRange, LimitRangeItem, PersistentVolumeClaim, Pod, PodSpec

_MAX_MILLI = MAX_INT64 // 1000
_OF_POD = ("cpu", "memory")
_ZERO = Quantity()


def faults_of_pod(pod: Pod, limit_range: LimitRange) -> list[str]:
    messages: list[str] = []
    for item in limit_range.spec.limits or ():
        if item.type == "Container":
            for container in (*(pod.spec.containers or ()), *pod.spec.initContainers):
                own = container.resources
                messages += _faults(item, summed([own.requests]), summed([own.limits]))
        elif item.type == "Pod":
            messages += _faults(item, *_of_pod(pod.spec))
    return messages


def faults_of_claim(claim: PersistentVolumeClaim, limit_range: LimitRange) -> list[str]:
    requests, messages = summed([claim.spec.resources.requests]), []
    for item in limit_range.spec.limits or ():
        if item.type == "PersistentVolumeClaim":
            messages += [*_too_little(item, requests, {}), *_claim_too_large(item, requests)]
    return messages


def told(faults: list[str]) -> str:
    """Return all errors in one message, without duplicates."""
    unique = list(dict.fromkeys(faults))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"


def _of_pod(spec: PodSpec) -> tuple[Amounts, Amounts]:
    """Return the requests and limits of a pod: those of the pod itself, otherwise the sums over its containers."""
    requests, limits = pod_requests(spec), pod_limits(spec)
    if spec.resources is not None:
        for total, own in ((requests, spec.resources.requests), (limits, spec.resources.limits)):
            total.update({name: parse(own[name]) for name in _OF_POD if name in own})
    return requests, limits


def _faults(item: LimitRangeItem, requests: Amounts, limits: Amounts) -> Iterator[str]:
    yield from _too_little(item, requests, limits)
    yield from _too_much(item, requests, limits)
    yield from _too_far_apart(item, requests, limits)


def _bounds(found: Mapping[str, str]) -> Iterator[tuple[str, Quantity]]:
    for name in sorted(found):
        yield name, parse(found[name])


def _too_little(item: LimitRangeItem, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, least in _bounds(item.min):
        start = f"minimum {name} usage per {item.type} is {least}"
        request, limit = requests.get(name), limits.get(name)
        requested, limited, bound = _comparable(request or _ZERO, limit or _ZERO, least)
        if request is None:
            yield f"{start}.  No request is specified"
        elif requested < bound:
            yield f"{start}, but request is {request}"
        elif limit is not None and limited < bound:
            yield f"{start}, but limit is {limit}"


def _too_much(item: LimitRangeItem, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, most in _bounds(item.max):
        start = f"maximum {name} usage per {item.type} is {most}"
        request, limit = requests.get(name), limits.get(name)
        requested, limited, bound = _comparable(request or _ZERO, limit or _ZERO, most)
        if limit is None:
            yield f"{start}.  No limit is specified"
        elif limited > bound:
            yield f"{start}, but limit is {limit}"
        elif request is not None and requested > bound:
            yield f"{start}, but request is {request}"


def _claim_too_large(item: LimitRangeItem, requests: Amounts) -> Iterator[str]:
    for name, most in _bounds(item.max):
        start = f"maximum {name} usage per {item.type} is {most}"
        request = requests.get(name)
        requested, _, bound = _comparable(request or _ZERO, _ZERO, most)
        if request is None:
            yield f"{start}.  No request is specified"
        elif requested > bound:
            yield f"{start}, but request is {request}"


def _too_far_apart(item: LimitRangeItem, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, most in _bounds(item.maxLimitRequestRatio):
        start = f"{name} max limit to request ratio per {item.type} is {most}"
        requested, limited, _ = _comparable(requests.get(name, _ZERO), limits.get(name, _ZERO), most)
        if not requested:
            yield f"{start}, but no request is specified or request is 0"
        elif not limited:
            yield f"{start}, but no limit is specified or limit is 0"
        elif limited / requested * 1000 > most.milli_value():
            yield f"{start}, but provided ratio is {limited / requested:f}"


def _comparable(*amounts: Quantity) -> list[int]:
    """Return the quantities in thousandths, or in units if one of them would overflow."""
    scale = -3 if all(amount.value() <= _MAX_MILLI for amount in amounts) else 0
    return [amount.scaled_value(scale) for amount in amounts]
