"""Since when the endpoints should have changed: what the last-change-trigger-time annotation says."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sampan.api.types.core_v1 import Pod, Service
from sampan.machinery.object_key import Key, key_of


@dataclass(slots=True)
class _Known:
    service: str
    pods: Mapping[str, str] = field(default_factory=dict)


class TriggerTimes:
    """Times are compared as text: those of the API sort so."""

    def __init__(self) -> None:
        self._known: dict[Key, _Known] = {}

    def next(self, service: Service, pods: Iterable[Pod]) -> str:
        """The earliest of what has changed since this was last asked; a new service's creation; empty for nothing."""
        key, created = key_of(service), service.metadata.creationTimestamp or ""
        times = {pod.metadata.name: time for pod in pods if (time := _ready_since(pod))}
        known = self._known.get(key)
        self._known[key] = _Known(created, times)
        if known is None:
            return created
        changed = [time for name, time in times.items() if time > known.pods.get(name, "")]
        if created > known.service:
            changed.append(created)
        return min(changed, default="")

    def forget(self, key: Key) -> None:
        self._known.pop(key, None)


def _ready_since(pod: Pod) -> str:
    """When it last became ready or unready."""
    for condition in pod.status.conditions:
        if condition.type == "Ready":
            return condition.lastTransitionTime or ""
    return ""


__all__ = ["TriggerTimes"]
