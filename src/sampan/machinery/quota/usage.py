"""The usage of single objects, by quota name. Pure."""

from __future__ import annotations

from sampan.api import times
from sampan.api.quantity import Quantity, parse
from sampan.api.resource_names import is_extended, is_huge_pages
from sampan.api.semantics.pod_resources import Amounts, effective_limits, effective_requests, summed
from sampan.api.types.core_v1 import Container, PersistentVolumeClaim, Pod, Service

UNIT = Quantity(1)
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_OVER = ("Failed", "Succeeded")
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"
BY_CLASS = ".storageclass.storage.k8s.io/"


def pod_usage(pod: Pod, now: float) -> Amounts:
    """Return the usage of a pod. A pod that is finished, or past its deletion grace period, counts only as an
    object."""
    used = {"count/pods": UNIT}
    if not is_over(pod, now):
        used |= _compute(effective_requests(pod.spec), effective_limits(pod.spec))
    return used


def container_usage(container: Container) -> Amounts:
    return _compute(summed([container.resources.requests]), summed([container.resources.limits]))


def _compute(requests: Amounts, limits: Amounts) -> Amounts:
    used = {"pods": UNIT}
    for name in _COMPUTE:
        if name in requests:
            used[name] = used[f"requests.{name}"] = requests[name]
        if name in limits:
            used[f"limits.{name}"] = limits[name]
    for name, amount in requests.items():
        if is_huge_pages(name):
            used[name] = used[f"requests.{name}"] = amount
        elif is_extended(name) or name.startswith(DEVICE_CLASS):
            used[f"requests.{name}"] = amount
    return used


def is_over(pod: Pod, now: float) -> bool:
    if pod.status.phase in _OVER:
        return True
    meta = pod.metadata
    if meta.deletionTimestamp is None or meta.deletionGracePeriodSeconds is None:
        return False
    return now > times.parse_time(meta.deletionTimestamp) + meta.deletionGracePeriodSeconds


def service_usage(service: Service, now: float) -> Amounts:
    ports = service.spec.ports
    node_ports, balancers = 0, 0
    if service.spec.type == "NodePort":
        node_ports = len(ports)
    elif service.spec.type == "LoadBalancer":
        is_allocated = service.spec.allocateLoadBalancerNodePorts is not False
        node_ports, balancers = sum(is_allocated or bool(port.nodePort) for port in ports), 1
    return {
        "count/services": UNIT,
        "services": UNIT,
        "services.nodeports": Quantity(node_ports),
        "services.loadbalancers": Quantity(balancers),
    }


def claim_usage(claim: PersistentVolumeClaim, now: float) -> Amounts:
    used = {"count/persistentvolumeclaims": UNIT, "persistentvolumeclaims": UNIT}
    if (size := _size(claim)) is not None:
        used["requests.storage"] = size
    name = claim.metadata.annotations.get(_OLD_CLASS) or claim.spec.storageClassName
    if name:
        by_class = ("persistentvolumeclaims", "requests.storage")
        used |= {f"{name}{BY_CLASS}{resource}": used[resource] for resource in by_class if resource in used}
    return used


def _size(claim: PersistentVolumeClaim) -> Quantity | None:
    """Return the size in whole bytes: the request, or the allocated size if that is larger."""
    requested = claim.spec.resources.requests.get("storage")
    if requested is None:
        return None
    allocated = claim.status.allocatedResources.get("storage", "0")
    return max(parse(requested), parse(allocated)).round_up(0)
