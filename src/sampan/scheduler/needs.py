"""The part of a pod spec that is relevant to scheduling, shared by all pods for which it is equal.

Pods of one Deployment differ in name, UID and token volume; their `Needs` are one object. Everything derived from a
Needs (parsed affinity, feasible nodes) is computed once.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import msgspec

from sampan.api.pod_amounts import effective_requests
from sampan.api.types.core_v1 import Container, PodSpec, Volume

T = TypeVar("T")

CPU, MEMORY, EPHEMERAL_STORAGE, PODS = "cpu", "memory", "ephemeral-storage", "pods"
_ASSUMED = {CPU: "100m", MEMORY: "200Mi"}
"""The requests assumed for containers without requests when nodes are scored."""

_encode = msgspec.json.Encoder().encode
_UNCONCERNING = ("projected", "secret", "configMap", "emptyDir", "downwardAPI", "hostPath")
"""Volume types that do not restrict the choice of a node."""
_RESTART_ALL = "RestartAllContainers"


class Needs:
    __slots__ = ("__weakref__", "_parsed", "nonzero", "requests", "spec")

    def __init__(self, spec: PodSpec) -> None:
        self.spec = spec
        """The spec of the first such pod; only fields that are part of the key may be read."""
        self.requests = amounts(spec)
        """Requested amounts by resource, CPU in millicores; zero amounts are omitted."""
        assumed = effective_requests(spec, _ASSUMED)
        self.nonzero = (_amount(CPU, assumed.get(CPU)), _amount(MEMORY, assumed.get(MEMORY)))
        """CPU and memory requests for scoring, with defaults for containers without requests."""
        self._parsed: dict[str, Any] = {}

    def parsed(self, owner: str, parse: Callable[[PodSpec], T]) -> T:
        """Return `parse(spec)`, cached under the owner's name."""
        try:
            value: T = self._parsed[owner]
        except KeyError:
            value = self._parsed[owner] = parse(self.spec)
        return value


def amounts(spec: PodSpec) -> dict[str, int]:
    requests = {name: _amount(name, quantity) for name, quantity in effective_requests(spec).items()}
    return {name: amount for name, amount in requests.items() if amount}


def _amount(name: str, quantity: Any) -> int:
    if quantity is None:
        return 0
    amount: int = quantity.milli_value() if name == CPU else quantity.value()
    return amount


class NeedsTable:
    """Interns Needs: equal ones are one object for as long as it is referenced."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[bytes, Needs] = WeakValueDictionary()

    def of(self, spec: PodSpec) -> Needs:
        key = needs_key(spec)
        needs = self._known.get(key)
        if needs is None:
            needs = self._known[key] = Needs(spec)
        return needs


def needs_key(spec: PodSpec) -> bytes:
    return _encode(
        (
            [_container(container) for container in spec.containers or ()],
            [_container(container) for container in spec.initContainers],
            spec.nodeSelector,
            spec.affinity,
            spec.tolerations,
            spec.topologySpreadConstraints,
            concerning_volumes(spec),
            (spec.overhead, spec.resources, spec.hostNetwork, spec.hostUsers, spec.schedulingGroup),
        )
    )


def _container(found: Container) -> tuple[Any, ...]:
    return (found.image, found.resources, found.ports, found.restartPolicy, _restarts_all(found))


def _restarts_all(found: Container) -> bool:
    return any(rule.action == _RESTART_ALL for rule in found.restartPolicyRules) if found.restartPolicyRules else False


def declared_features(spec: PodSpec) -> frozenset[str]:
    """Return the features that a node must declare in its status to run the pod."""
    features = set()
    containers = (*(spec.containers or ()), *spec.initContainers)
    if any(map(_restarts_all, containers)):
        features.add("RestartAllContainersOnContainerExits")
    if spec.hostNetwork and spec.hostUsers is False:
        features.add("UserNamespacesHostNetworkSupport")
    return frozenset(features)


def concerning_volumes(spec: PodSpec) -> Sequence[Volume]:
    """Return the volumes that may restrict the choice of a node."""
    return [volume for volume in spec.volumes if not any(getattr(volume, kind) for kind in _UNCONCERNING)]
