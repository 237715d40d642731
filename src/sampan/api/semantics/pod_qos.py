"""The quality of service (QoS) class of a pod."""

from collections.abc import Iterable, Mapping

from sampan.api.quantity import parse
from sampan.api.semantics import pod_resources
from sampan.api.semantics.pods import init_and_main_containers
from sampan.api.types.core_v1 import PodSpec, ResourceRequirements

GUARANTEED, BURSTABLE, BEST_EFFORT = "Guaranteed", "Burstable", "BestEffort"
_COUNTED = ("cpu", "memory")


def qos_class(spec: PodSpec) -> str:
    """Return the QoS class: Guaranteed if requests equal limits everywhere, BestEffort without any requests and
    limits."""
    parts = _parts(spec)
    if not any(_counted(part.requests) or _counted(part.limits) for part in parts):
        return BEST_EFFORT
    is_limited = all(len(_counted(part.limits)) == len(_COUNTED) for part in _must_be_limited(spec, parts))
    return GUARANTEED if is_limited and _is_asked_in_full(parts) else BURSTABLE


def _parts(spec: PodSpec) -> list[ResourceRequirements]:
    if spec.resources is not None:
        return [spec.resources]
    return [container.resources for container in init_and_main_containers(spec)]


def _must_be_limited(spec: PodSpec, parts: list[ResourceRequirements]) -> Iterable[ResourceRequirements]:
    """Return the parts that must have limits: each container; for a pod with pod-level resources, those only if they
    have limits."""
    return [part for part in parts if part.limits] if spec.resources is not None else parts


def _is_asked_in_full(parts: list[ResourceRequirements]) -> bool:
    requests = pod_resources.summed(_counted(part.requests) for part in parts)
    return requests == pod_resources.summed(_counted(part.limits) for part in parts)


def _counted(amounts: Mapping[str, str]) -> dict[str, str]:
    """Return the resources that determine the class: cpu and memory, if greater than zero."""
    if not amounts:
        return {}
    return {name: amounts[name] for name in _COUNTED if name in amounts and parse(amounts[name]).sign > 0}
