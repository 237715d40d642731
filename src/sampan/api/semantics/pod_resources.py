"""Resource requests and limits of a pod, aggregated over its containers. Pure."""

from collections.abc import Callable, Iterable, Mapping

from sampan.api import quantity
from sampan.api.quantity import Quantity
from sampan.api.resource_names import is_pod_level
from sampan.api.semantics.pods import is_sidecar
from sampan.api.types.core_v1 import Container, PodSpec

Amounts = dict[str, Quantity]


def pod_requests(spec: PodSpec, assumed: Mapping[str, str] | None = None) -> Amounts:
    """Return the aggregated requests of the containers: the sum of those that run at the same time, and at least what
    each init container needs together with the sidecars that were started before it. `assumed` provides defaults for
    containers without requests."""
    if assumed:
        return _together(spec, lambda container: {**assumed, **container.resources.requests})
    return _together(spec, lambda container: container.resources.requests)


def pod_limits(spec: PodSpec) -> Amounts:
    return _together(spec, lambda container: container.resources.limits)


def effective_requests(spec: PodSpec, assumed: Mapping[str, str] | None = None) -> Amounts:
    """Return the requests that a node must satisfy: pod-level requests override those of the containers, and the
    overhead is added."""
    total = pod_requests(spec, assumed)
    if spec.resources is not None:
        total |= _of_pod(spec.resources.requests)
    add(total, summed([spec.overhead]))
    return total


def effective_limits(spec: PodSpec) -> Amounts:
    """Return the limits of the pod, computed like its requests; overhead is only added to existing limits."""
    total = pod_limits(spec)
    if spec.resources is not None:
        total |= _of_pod(spec.resources.limits)
    add(total, {name: amount for name, amount in summed([spec.overhead]).items() if total.get(name)})
    return total


def _of_pod(own: Mapping[str, str]) -> Amounts:
    return {name: amount for name, amount in summed([own]).items() if is_pod_level(name)}


def _together(spec: PodSpec, pick: Callable[[Container], Mapping[str, str]]) -> Amounts:
    total = summed(pick(container) for container in spec.containers or ())
    started: Amounts = {}
    peak: Amounts = {}
    for container in spec.initContainers:
        own = summed([pick(container)])
        if is_sidecar(container):
            add(total, own)
            add(started, own)
            own = started
        else:
            add(own, started)
        raise_to(peak, own)
    raise_to(total, peak)
    return total


def summed(lists: Iterable[Mapping[str, str]]) -> Amounts:
    total: Amounts = {}
    for amounts in lists:
        add(total, {name: quantity.parse(text) for name, text in amounts.items()})
    return total


def add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def raise_to(total: Amounts, least: Amounts) -> None:
    for name, amount in least.items():
        if name not in total or amount > total[name]:
            total[name] = amount
