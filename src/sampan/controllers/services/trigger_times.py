"""The value of the last-change-trigger-time annotation: since when the endpoints should have changed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sampan.api.types.core_v1 import Pod, Service
from sampan.machinery.object_key import Key, key_of


@dataclass(slots=True)
class _Known:
    service: str
    pods: Mapping[str, str] = field(default_factory=dict)


class TriggerTimes:
    """Tracks the changes of services and their pods. API timestamps sort correctly as strings."""

    def __init__(self) -> None:
        self._known: dict[Key, _Known] = {}

    def next(self, service: Service, pods: Iterable[Pod]) -> str:
        """Return the earliest change since the previous call: a pod's readiness, or the creation of a new service.

        The result is empty if nothing has changed.
        """
        key, created = key_of(service), service.metadata.creationTimestamp or ""
        times = {pod.metadata.name: time for pod in pods if (time := _ready_since(pod))}
        previous = self._known.get(key)
        self._known[key] = _Known(created, times)
        if previous is None:
            return created
        changed = [time for name, time in times.items() if time > previous.pods.get(name, "")]
        if created > previous.service:
            changed.append(created)
        return min(changed, default="")

    def forget(self, key: Key) -> None:
        self._known.pop(key, None)


def _ready_since(pod: Pod) -> str:
    """Return when the pod last became ready or unready."""
    for condition in pod.status.conditions:
        if condition.type == "Ready":
            return condition.lastTransitionTime or ""
    return ""
