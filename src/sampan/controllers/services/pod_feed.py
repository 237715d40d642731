"""Changes of pods as keys of services, batched; and the times of the changes that triggered an update."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from sampan.api.types.core_v1 import Pod, Service
from sampan.controllers.services.pods import by_first_required, by_label_pair, may_serve, services_of, signature
from sampan.machinery.clock import Clock
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName, key_of


@dataclass(slots=True)
class _LastTrigger:
    service: str
    pods: Mapping[str, str] = field(default_factory=dict)


class TriggerTimes:
    """Tracks the changes of services and their pods. API timestamps sort correctly as strings."""

    def __init__(self) -> None:
        self._known: dict[NamespacedName, _LastTrigger] = {}

    def next(self, service: Service, pods: Iterable[Pod]) -> str:
        """Return the earliest change since the previous call: a pod's readiness, or the creation of a new service.

        The result is empty if nothing has changed.
        """
        key, created = key_of(service), service.metadata.creationTimestamp or ""
        times = {pod.metadata.name: time for pod in pods if (time := _ready_since(pod))}
        previous = self._known.get(key)
        self._known[key] = _LastTrigger(created, times)
        if previous is None:
            return created
        changed = [time for name, time in times.items() if time > previous.pods.get(name, "")]
        if created > previous.service:
            changed.append(created)
        return min(changed, default="")

    def forget(self, key: NamespacedName) -> None:
        self._known.pop(key, None)


def _ready_since(pod: Pod) -> str:
    """Return when the pod last became ready or unready."""
    for condition in pod.status.conditions:
        if condition.type == "Ready":
            return condition.lastTransitionTime or ""
    return ""


Add = Callable[[Hashable], None]


class PodFeed:
    def __init__(self, *, informers: InformerFactory, clock: Clock, batch_s: float = 0) -> None:
        self._informer = informers.of(Pod)
        self._services = informers.of(Service).lister
        self._services.add_index(by_first_required)
        self._informer.lister.add_index(by_label_pair)
        self._clock, self._batch_s = clock, batch_s
        self._due: dict[NamespacedName, float] = {}
        """Monotonic time until which the changes of a service's pods are batched."""

    def start(self, add: Add) -> None:
        self._informer.subscribe(lambda old, new: self._changed(old, new, add))

    def wait_s(self, key: NamespacedName) -> float:
        """Return the seconds for which changes are still batched."""
        left_s = self._due.get(key, 0.0) - self._clock.monotonic()
        if left_s <= 0:
            self._due.pop(key, None)
        return max(left_s, 0.0)

    def _changed(self, old: Pod | None, new: Pod | None, add: Add) -> None:
        for key in self._concerned(old, new):
            if self._batch_s:
                self._due.setdefault(key, self._clock.monotonic() + self._batch_s)
            add(key)

    def _concerned(self, old: Pod | None, new: Pod | None) -> list[NamespacedName]:
        before, after = self._services_of(old), self._services_of(new)
        if not (before or after) or not any(pod and may_serve(pod, with_terminating=True) for pod in (old, new)):
            return []
        if old is not None and new is not None and signature(old) == signature(new):
            return list(set(after) ^ set(before))
        return list(dict.fromkeys([*after, *before]))

    def _services_of(self, pod: Pod | None) -> list[NamespacedName]:
        if pod is None:
            return []
        return services_of(pod.metadata.namespace, pod.metadata.labels, self._services)
