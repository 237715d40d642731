"""Pure choice of the devices for a container."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sampan.api import quantity
from sampan.api.types.core_v1 import Container, Pod


class NoDevices(Exception):
    """The devices cannot be allocated; the message says why."""


def check_health(resource: str, healthy: Collection[str] | None, held: Collection[str]) -> None:
    """Raise NoDevices unless the container's devices are healthy. `healthy` is None if no plug-in has ever registered
    the resource; `held` are the devices that the container already has.
    """
    if healthy is None:
        raise NoDevices(f"cannot allocate unregistered device {resource}")
    if not healthy:
        raise NoDevices(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
    if not set(held) <= set(healthy):
        message = "previously allocated devices are no longer healthy; cannot allocate unhealthy devices"
        raise NoDevices(f"{message} {resource}")


def check_unchanged(uid: str, container: str, resource: str, held: Collection[str], count: int) -> None:
    if held and len(held) != count:
        message = f'pod "{uid}" container "{container}" changed request for resource "{resource}"'
        raise NoDevices(f"{message} from {len(held)} to {count}")


def check_enough(resource: str, count: int, free: Collection[str]) -> None:
    if len(free) < count:
        message = f"requested number of devices unavailable for {resource}. Requested: {count}, Available: {len(free)}"
        raise NoDevices(message)


def chosen(count: int, reusable: Collection[str], preferred: Sequence[str], free: Collection[str]) -> list[str]:
    """Return devices of earlier init containers of the pod first, then those that the plug-in prefers."""
    ordered = [*sorted(reusable), *(device for device in preferred if device in free), *sorted(free)]
    return list(dict.fromkeys(ordered))[:count]


def asked(container: Container) -> dict[str, int]:
    """Return the requested number of each resource. Limits and requests of devices are equal."""
    return {name: int(quantity.parse(text).value()) for name, text in container.resources.limits.items()}


def from_claim(pod: Pod, container: str) -> set[str]:
    """Return the resources that a resource claim provides to the container instead of a device plug-in."""
    status = pod.status.extendedResourceClaimStatus
    mappings = status.requestMappings if status is not None else ()
    return {mapping.resourceName for mapping in mappings or () if mapping.containerName == container}


Held = Mapping[str, Collection[str]]
"""Device IDs by resource."""
