"""Pods take overhead, node selector and tolerations from their runtime class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sampan.api.quantity import parse
from sampan.api.resource import Resource
from sampan.api.types.core_v1 import Pod, Toleration
from sampan.api.types.node_v1 import RuntimeClass, Scheduling
from sampan.apiserver.admission import lookup
from sampan.apiserver.admission.chain import Attributes, Operation

_MISMATCH = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"


class RuntimeClassAdmission:
    name = "RuntimeClass"

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        return resource.plural == "pods" and resource.group == "" and operation == "CREATE" and not subresource

    async def admit(self, attributes: Attributes) -> None:
        pod: Pod = attributes.obj
        found = await _class_of(attributes, pod)
        if found is None:
            return
        if found.overhead is not None:
            if pod.spec.overhead and not _same(found.overhead.podFixed, pod.spec.overhead):
                raise attributes.refusal(_MISMATCH)
            pod.spec.overhead = dict(found.overhead.podFixed)
        if found.scheduling is not None:
            _steer(attributes, pod, found.scheduling)

    async def validate(self, attributes: Attributes) -> None:
        pod: Pod = attributes.obj
        found = await _class_of(attributes, pod)
        if found is not None and found.overhead is not None:
            if not _same(found.overhead.podFixed, pod.spec.overhead):
                raise attributes.refusal(_MISMATCH)
        elif pod.spec.overhead:
            why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
            raise attributes.refusal(why)


async def _class_of(attributes: Attributes, pod: Pod) -> RuntimeClass | None:
    name = pod.spec.runtimeClassName
    if name is None:
        return None
    store = attributes.registry.store_of("node.k8s.io", "v1", "RuntimeClass")
    found: RuntimeClass | None = await lookup.find(store, "", name)
    if found is None:
        raise attributes.refusal(f'pod rejected: RuntimeClass "{name}" not found')
    return found


def _same(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return one.keys() == other.keys() and all(parse(one[name]) == parse(other[name]) for name in one)


def _steer(attributes: Attributes, pod: Pod, scheduling: Scheduling) -> None:
    for key, value in scheduling.nodeSelector.items():
        own = pod.spec.nodeSelector.get(key, value)
        if own != value:
            start = f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}"
            raise attributes.refusal(f"{start}; pod.spec.nodeSelector[{key}] = {own}")
        pod.spec.nodeSelector[key] = value
    pod.spec.tolerations = merged([*pod.spec.tolerations, *scheduling.tolerations])


def merged(tolerations: Sequence[Toleration]) -> list[Toleration]:
    """Without those that others cover; of equals the first stays."""
    kept: list[Toleration] = []
    for index, toleration in enumerate(tolerations):
        later = (other for other in tolerations[index + 1 :] if other != toleration)
        if not any(covers(other, toleration) for other in (*kept, *later)):
            kept.append(toleration)
    return kept


def covers(wide: Toleration, narrow: Toleration) -> bool:
    if wide == narrow:
        return True
    if narrow.key != wide.key and not (wide.key == "" and wide.operator == "Exists"):
        return False
    if wide.effect not in ("", narrow.effect):
        return False
    if wide.effect == "NoExecute" and wide.tolerationSeconds is not None:
        seconds = narrow.tolerationSeconds
        if seconds is None or seconds > wide.tolerationSeconds:
            return False
    if wide.operator in ("Equal", ""):
        return narrow.operator == "Equal" and narrow.value == wide.value
    return wide.operator == "Exists"
