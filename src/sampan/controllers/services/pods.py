"""The pods that a service selects and the endpoints that they contribute (pure), and a feed of changed pods.

The feed maps changes of pods to keys of services and batches them. It keeps the times of the changes that triggered an
update.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Final, Generic, TypeVar

from sampan.api.limits import SERVICE_TARGET_PORTS
from sampan.api.semantics.pods import is_ready, is_sidecar
from sampan.api.types.core_v1 import ContainerPort, Pod, Service, ServicePort
from sampan.host.bounded_cache import BoundedCache
from sampan.host.clock import Clock
from sampan.machinery.informer import InformerFactory, Lister
from sampan.machinery.object_key import NamespacedName, key_of

Add = Callable[[Hashable], None]


def by_label_pair(obj: Any) -> Iterable[Hashable]:
    """Return every label of the object, together with its namespace; an index function."""
    meta = obj.metadata
    return [(meta.namespace, *pair) for pair in meta.labels.items()]


def by_first_required_label(service: Any) -> Iterable[Hashable]:
    """Return one label that the service's selector requires, and which every pod of the service therefore has."""
    selector = service.spec.selector
    return [(service.metadata.namespace, *min(selector.items()))] if selector else ()


def pods_of(service: Service, pods: Lister[Pod]) -> Sequence[Pod]:
    """Return the pods in the service's namespace that its selector matches; none if it has no selector."""
    selector, namespace = service.spec.selector, service.metadata.namespace
    if not selector:
        return []
    candidates = min((pods.find(by_label_pair, (namespace, *pair)) for pair in selector.items()), key=len)
    return (
        candidates
        if len(selector) == 1
        else [pod for pod in candidates if selector.items() <= pod.metadata.labels.items()]
    )


def services_of(namespace: str, labels: Mapping[str, str], services: Lister[Service]) -> list[NamespacedName]:
    """Return the services whose selector matches the labels of a pod."""
    return [
        key_of(service)
        for pair in labels.items()
        for service in services.find(by_first_required_label, (namespace, *pair))
        if service.spec.selector.items() <= labels.items()
    ]


def takes_pods(service: Service) -> bool:
    """Whether the endpoints of the service are managed: it has a selector and is not of type ExternalName."""
    return bool(service.spec.selector) and service.spec.type != "ExternalName"


_Target = tuple[str, str]
"""The name and the protocol of a container port."""
_INLINE_ITEMS = 500
IPV4, IPV6 = "IPv4", "IPv6"
HEADLESS: Final = "service.kubernetes.io/headless"
LAST_CHANGE: Final = "endpoints.kubernetes.io/last-change-trigger-time"


def may_serve(pod: Pod, *, with_terminating: bool) -> bool:
    """Whether the pod may be an endpoint: it has an address and has not terminated."""
    status = pod.status
    if status.phase in ("Succeeded", "Failed") or not (status.podIP or status.podIPs):
        return False
    return with_terminating or pod.metadata.deletionTimestamp is None


def addresses_of(pod: Pod, family: str) -> list[str]:
    return [_canonical_ips[pod_ip.ip] for pod_ip in pod.status.podIPs if (":" in pod_ip.ip) == (family == IPV6)]


def _canonicalize_ip(text: str) -> str:
    """Return the canonical form of an IP address."""
    try:
        return str(ip_address(text))
    except ValueError:
        return text


_canonical_ips = BoundedCache(_canonicalize_ip, max_entries=1 << 14, max_entry_bytes=512)


P = TypeVar("P")


class TargetPorts(Generic[P]):
    """The ports of a service at its pods, made by `make` from a port of the service and the number at the pod.

    Pods whose containers have the same ports under the names that the service targets share one list, so that the cost
    is not the product of pods, ports of the service and ports of containers.
    """

    def __init__(self, service: Service, make: Callable[[ServicePort, int], P]) -> None:
        self._ports, self._make = service.spec.ports, make
        self._names = {_target(port) for port in self._ports if not isinstance(port.targetPort, int)}
        self._lists: dict[frozenset[tuple[_Target, int]], list[P]] = {}
        self._count = 0

    def find(self, pod: Pod) -> list[P] | None:
        """Return the ports at the pod, without those that its containers do not have. Return None for a pod whose
        container ports differ from those of the others if `limits.SERVICE_TARGET_PORTS` is exceeded."""
        numbers = self._resolve_names(pod) if self._names else {}
        key = frozenset(numbers.items())
        ports = self._lists.get(key)
        if ports is None and (not self._lists or self._count + len(self._ports) <= SERVICE_TARGET_PORTS):
            self._count += len(self._ports)
            ports = self._lists[key] = list(self._list_ports(numbers))
        return ports

    def _resolve_names(self, pod: Pod) -> dict[_Target, int]:
        numbers: dict[_Target, int] = {}
        for port in _ports(pod):
            target = (port.name, port.protocol or "TCP")
            if target in self._names:
                numbers.setdefault(target, port.containerPort)
        return numbers

    def _list_ports(self, numbers: Mapping[_Target, int]) -> Iterator[P]:
        for port in self._ports:
            number = port.targetPort if isinstance(port.targetPort, int) else numbers.get(_target(port))
            if number is not None:
                yield self._make(port, number)


def _target(port: ServicePort) -> _Target:
    return str(port.targetPort), port.protocol or "TCP"


def has_many(pods: Sequence[Pod], service: Service) -> bool:
    """Whether the endpoints of the service must not be computed on the event loop."""
    return len(pods) + len(service.spec.ports) > _INLINE_ITEMS


def _ports(pod: Pod) -> Iterator[ContainerPort]:
    """Yield the ports of containers and sidecars."""
    for container in pod.spec.containers or ():
        yield from container.ports
    for container in pod.spec.initContainers:
        if is_sidecar(container):
            yield from container.ports


def hostname_of(pod: Pod, service: Service) -> str:
    """Return the hostname of the endpoint if the pod sets one below this service, or an empty string."""
    is_asked = pod.spec.hostname and pod.spec.subdomain == service.metadata.name
    return pod.spec.hostname if is_asked else ""


def is_headless(service: Service) -> bool:
    return service.spec.clusterIP in ("", "None")


def signature(pod: Pod) -> tuple[Any, ...]:
    """Return everything of a pod, except its labels, that endpoints depend on."""
    status, spec, meta = pod.status, pod.spec, pod.metadata
    return (
        meta.uid,
        meta.deletionTimestamp is not None,
        status.phase in ("Succeeded", "Failed"),
        is_ready(pod),
        [pod_ip.ip for pod_ip in status.podIPs],
        spec.nodeName,
        spec.hostname,
        spec.subdomain,
    )


@dataclass(slots=True)
class _LastTrigger:
    service: str
    pods: Mapping[str, str] = field(default_factory=dict)


class TriggerTimes:
    """Tracks the changes of services and their pods. API timestamps sort correctly as strings."""

    def __init__(self) -> None:
        self._known: dict[NamespacedName, _LastTrigger] = {}

    def compute_trigger_time(self, service: Service, pods: Iterable[Pod]) -> str:
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


class PodFeed:
    def __init__(self, *, informers: InformerFactory, clock: Clock, batch_s: float = 0) -> None:
        self._informer = informers.for_kind(Pod)
        self._services = informers.for_kind(Service).lister
        self._services.add_index(by_first_required_label)
        self._informer.lister.add_index(by_label_pair)
        self._clock, self._batch_s = clock, batch_s
        self._due: dict[NamespacedName, float] = {}
        """Monotonic time until which the changes of a service's pods are batched."""

    def start(self, add: Add) -> None:
        self._informer.subscribe(lambda old, new: self._on_pod_changed(old, new, add))

    def wait_s(self, key: NamespacedName) -> float:
        """Return the seconds for which changes of the pods of this service are still batched."""
        left_s = self._due.get(key, 0.0) - self._clock.monotonic()
        if left_s <= 0:
            self._due.pop(key, None)
        return max(left_s, 0.0)

    def _on_pod_changed(self, old: Pod | None, new: Pod | None, add: Add) -> None:
        for key in self._list_affected_services(old, new):
            if self._batch_s:
                self._due.setdefault(key, self._clock.monotonic() + self._batch_s)
            add(key)

    def _list_affected_services(self, old: Pod | None, new: Pod | None) -> list[NamespacedName]:
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
