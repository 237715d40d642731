"""Resource requests and limits of a pod, aggregated over its containers, and the quality of service (QoS) class that
follows from them. Pure."""

from collections.abc import Callable, Iterable, Mapping

from sampan.api.names import is_pod_level_resource
from sampan.api.semantics.pods import init_and_main_containers, is_sidecar
from sampan.api.types.core_v1 import Container, PodSpec, ResourceRequirements
from sampan.api.values import quantity
from sampan.api.values.quantity import Quantity, parse

Amounts = dict[str, Quantity]

GUARANTEED, BURSTABLE, BEST_EFFORT = "Guaranteed", "Burstable", "BestEffort"
_QOS_RESOURCES = ("cpu", "memory")


def pod_requests(spec: PodSpec, assumed: Mapping[str, str] | None = None) -> Amounts:
    """Return the aggregated requests of the containers. This is the sum of the containers that run at the same time. It
    is at least the sum that each init container needs together with the sidecars that were started before it. `assumed`
    provides defaults for containers without requests."""
    if assumed:
        return aggregate_containers(spec, lambda container: {**assumed, **container.resources.requests})
    return aggregate_containers(spec, lambda container: container.resources.requests)


def pod_limits(spec: PodSpec) -> Amounts:
    return aggregate_containers(spec, lambda container: container.resources.limits)


def effective_requests(spec: PodSpec, assumed: Mapping[str, str] | None = None) -> Amounts:
    """Return the requests that a node must satisfy: pod-level requests override those of the containers, and the
    overhead is added."""
    total = pod_requests(spec, assumed)
    if spec.resources is not None:
        total |= _pod_level_amounts(spec.resources.requests)
    add(total, sum_amounts([spec.overhead]))
    return total


def effective_limits(spec: PodSpec) -> Amounts:
    """Return the limits of the pod, computed like its requests; overhead is only added to existing limits."""
    total = pod_limits(spec)
    if spec.resources is not None:
        total |= _pod_level_amounts(spec.resources.limits)
    add(total, {name: amount for name, amount in sum_amounts([spec.overhead]).items() if total.get(name)})
    return total


def _pod_level_amounts(own: Mapping[str, str]) -> Amounts:
    return {name: amount for name, amount in sum_amounts([own]).items() if is_pod_level_resource(name)}


def aggregate_containers(spec: PodSpec, pick: Callable[[Container], Mapping[str, str]]) -> Amounts:
    """Return the amounts that `pick` returns for the containers, aggregated as `pod_requests` aggregates them."""
    total = sum_amounts(pick(container) for container in spec.containers or ())
    started: Amounts = {}
    peak: Amounts = {}
    for container in spec.initContainers:
        own = sum_amounts([pick(container)])
        if is_sidecar(container):
            add(total, own)
            add(started, own)
            own = started
        else:
            add(own, started)
        raise_to(peak, own)
    raise_to(total, peak)
    return total


def sum_amounts(lists: Iterable[Mapping[str, str]]) -> Amounts:
    total: Amounts = {}
    for amounts in lists:
        add(total, {name: quantity.parse(text) for name, text in amounts.items()})
    return total


def add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def raise_to(total: Amounts, minimum: Amounts) -> None:
    for name, amount in minimum.items():
        if name not in total or amount > total[name]:
            total[name] = amount


def qos_class(spec: PodSpec) -> str:
    """Return the QoS class: Guaranteed if requests equal limits everywhere, BestEffort without any requests and
    limits."""
    parts = _parts(spec)
    if not any(_select_qos_resources(part.requests) or _select_qos_resources(part.limits) for part in parts):
        return BEST_EFFORT
    is_limited = all(
        len(_select_qos_resources(part.limits)) == len(_QOS_RESOURCES) for part in _must_be_limited(spec, parts)
    )
    return GUARANTEED if is_limited and _has_equal_requests_and_limits(parts) else BURSTABLE


def _has_pod_resources(spec: PodSpec) -> bool:
    resources = spec.resources
    return resources is not None and any(map(is_pod_level_resource, (*resources.requests, *resources.limits)))


def _parts(spec: PodSpec) -> list[ResourceRequirements]:
    if spec.resources is not None and _has_pod_resources(spec):
        return [spec.resources]
    return [container.resources for container in init_and_main_containers(spec)]


def _must_be_limited(spec: PodSpec, parts: list[ResourceRequirements]) -> Iterable[ResourceRequirements]:
    """Return the parts that must have limits: each container; for a pod with pod-level resources, those only if they
    have limits."""
    return [part for part in parts if part.limits] if _has_pod_resources(spec) else parts


def _has_equal_requests_and_limits(parts: list[ResourceRequirements]) -> bool:
    requests = sum_amounts(_select_qos_resources(part.requests) for part in parts)
    return requests == sum_amounts(_select_qos_resources(part.limits) for part in parts)


def _select_qos_resources(amounts: Mapping[str, str]) -> dict[str, str]:
    """Return the resources that determine the class: cpu and memory, if greater than zero."""
    if not amounts:
        return {}
    return {name: amounts[name] for name in _QOS_RESOURCES if name in amounts and parse(amounts[name]).sign > 0}
