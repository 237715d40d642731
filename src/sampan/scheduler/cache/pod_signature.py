"""The part of a pod spec that is relevant to scheduling, shared by all pods for which it is equal.

Pods of one Deployment differ in name, UID and token volume; they have one `PodSignature`. Everything derived from it
(parsed affinity, feasible nodes) is computed once. The counterpart is the pod signature of
`pkg/scheduler/framework/signers.go`.

The spec of a signature consists of the fields that its key is made of. No result that is cached for the signature can
therefore depend on another field. A plugin that needs another field finds it empty until `select_signature_fields`
keeps it.
"""

from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import msgspec

from sampan.api.semantics.pod_resources import effective_requests
from sampan.api.semantics.pods import init_and_main_containers
from sampan.api.types.core_v1 import Container, ContainerRestartRule, PodSpec, Volume

T = TypeVar("T")

CPU, MEMORY, EPHEMERAL_STORAGE, PODS = "cpu", "memory", "ephemeral-storage", "pods"
_ASSUMED = {CPU: "100m", MEMORY: "200Mi"}
"""The requests assumed for containers without requests when nodes are scored."""

_encode = msgspec.json.Encoder().encode
_IRRELEVANT_VOLUMES = ("projected", "secret", "configMap", "emptyDir", "downwardAPI", "hostPath")
"""Volume types that do not restrict the choice of a node."""
_RESTART_ALL = "RestartAllContainers"
_RESTART_ALL_RULES = [ContainerRestartRule(action=_RESTART_ALL)]


class PodSignature:
    __slots__ = ("__weakref__", "_parsed", "nonzero", "requests", "spec")

    def __init__(self, spec: PodSpec) -> None:
        self.spec = spec
        """The result of `select_signature_fields`: fields that are not part of the signature have their default
        values."""
        self.requests = amounts(spec)
        """Requested amounts by resource, CPU in millicores; zero amounts are omitted."""
        assumed = effective_requests(spec, _ASSUMED)
        self.nonzero = (_amount(CPU, assumed.get(CPU)), _amount(MEMORY, assumed.get(MEMORY)))
        """CPU and memory requests for scoring, with defaults for containers without requests."""
        self._parsed: dict[str, Any] = {}

    def parse_once(self, owner: str, parse: Callable[[PodSpec], T]) -> T:
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


class PodSignatureTable:
    """Interns signatures: equal ones are one object for as long as it is referenced."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[bytes, PodSignature] = WeakValueDictionary()

    def get_signature(self, spec: PodSpec) -> PodSignature:
        signed = select_signature_fields(spec)
        key = _encode(signed)
        signature = self._known.get(key)
        if signature is None:
            signature = self._known[key] = PodSignature(signed)
        return signature


def select_signature_fields(spec: PodSpec) -> PodSpec:
    """Return a spec that has only the fields that belong to the signature."""
    return PodSpec(
        containers=[_select_container_fields(container) for container in spec.containers or ()],
        initContainers=[_select_container_fields(container) for container in spec.initContainers],
        nodeSelector=spec.nodeSelector,
        affinity=spec.affinity,
        tolerations=spec.tolerations,
        topologySpreadConstraints=spec.topologySpreadConstraints,
        volumes=relevant_volumes(spec),
        overhead=spec.overhead,
        resources=spec.resources,
        hostNetwork=spec.hostNetwork,
        hostUsers=spec.hostUsers,
        schedulingGroup=spec.schedulingGroup,
    )


def _select_container_fields(container: Container) -> Container:
    return Container(
        name="",
        image=container.image,
        resources=container.resources,
        ports=container.ports,
        restartPolicy=container.restartPolicy,
        restartPolicyRules=_RESTART_ALL_RULES if _restarts_all(container) else [],
    )


def _restarts_all(container: Container) -> bool:
    return (
        any(rule.action == _RESTART_ALL for rule in container.restartPolicyRules)
        if container.restartPolicyRules
        else False
    )


def declared_features(spec: PodSpec) -> frozenset[str]:
    """Return the features that a node must declare in its status to run the pod."""
    features = set()
    containers = init_and_main_containers(spec)
    if any(map(_restarts_all, containers)):
        features.add("RestartAllContainersOnContainerExits")
    if spec.hostNetwork and spec.hostUsers is False:
        features.add("UserNamespacesHostNetworkSupport")
    return frozenset(features)


def relevant_volumes(spec: PodSpec) -> list[Volume]:
    """Return the volumes that may restrict the choice of a node."""
    return [
        volume
        for volume in spec.volumes
        if not any(getattr(volume, volume_type) for volume_type in _IRRELEVANT_VOLUMES)
    ]
