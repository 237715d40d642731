"""RuntimeClass: sets the overhead, node selector and tolerations of pods from their runtime class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from math import inf

from msgspec import structs

from sampan.api.resources.resource import Resource
from sampan.api.types.core_v1 import Pod, Toleration
from sampan.api.types.node_v1 import RuntimeClass, Scheduling
from sampan.api.values.quantity import are_equal
from sampan.apiserver.admission.framework import lookup
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation, is_pod_creation

_MISMATCH = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"


class RuntimeClassAdmission:
    name = "RuntimeClass"

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        return is_pod_creation(operation, resource, subresource)

    async def admit(self, attributes: AdmissionAttributes) -> None:
        pod: Pod = attributes.obj
        runtime_class = await _class_of(attributes, pod)
        if runtime_class is None:
            return
        if runtime_class.overhead is not None:
            if pod.spec.overhead and not are_equal(runtime_class.overhead.podFixed, pod.spec.overhead):
                raise attributes.forbidden(_MISMATCH)
            pod.spec.overhead = dict(runtime_class.overhead.podFixed)
        if runtime_class.scheduling is not None:
            _apply_scheduling(attributes, pod, runtime_class.scheduling)

    async def validate(self, attributes: AdmissionAttributes) -> None:
        pod: Pod = attributes.obj
        runtime_class = await _class_of(attributes, pod)
        if runtime_class is not None and runtime_class.overhead is not None:
            if not are_equal(runtime_class.overhead.podFixed, pod.spec.overhead):
                raise attributes.forbidden(_MISMATCH)
        elif pod.spec.overhead:
            why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
            raise attributes.forbidden(why)


async def _class_of(attributes: AdmissionAttributes, pod: Pod) -> RuntimeClass | None:
    name = pod.spec.runtimeClassName
    if name is None:
        return None
    store = attributes.registry.open_store_of("node.k8s.io", "v1", "RuntimeClass")
    runtime_class: RuntimeClass | None = await lookup.find(store, "", name)
    if runtime_class is None:
        raise attributes.forbidden(f'pod rejected: RuntimeClass "{name}" not found')
    return runtime_class


def _apply_scheduling(attributes: AdmissionAttributes, pod: Pod, scheduling: Scheduling) -> None:
    for key, value in scheduling.nodeSelector.items():
        own = pod.spec.nodeSelector.get(key, value)
        if own != value:
            start = f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}"
            raise attributes.forbidden(f"{start}; pod.spec.nodeSelector[{key}] = {own}")
        pod.spec.nodeSelector[key] = value
    pod.spec.tolerations = merge_tolerations([*pod.spec.tolerations, *scheduling.tolerations])


def merge_tolerations(tolerations: Sequence[Toleration]) -> list[Toleration]:
    """Return the tolerations without duplicates and without those that another one covers."""
    others = TolerationCover(tolerations)
    remaining_tolerations: dict[tuple[object, ...], Toleration] = {}
    for toleration in tolerations:
        key = structs.astuple(toleration)
        others.remove(toleration)
        if key not in remaining_tolerations and not others.covers(toleration, besides_equals=True):
            remaining_tolerations[key] = toleration
            others.add(toleration)
    return list(remaining_tolerations.values())


class TolerationCover:
    """A set of tolerations that finds whether one of them covers another without comparing each."""

    def __init__(self, tolerations: Iterable[Toleration] = ()) -> None:
        self._counts: Counter[tuple[object, ...]] = Counter()
        self._limits: dict[tuple[str | None, ...], Counter[float]] = {}
        """The toleration seconds and how many tolerations have them, by key (None: every key), effect and value (None:
        every value)."""
        self._longest: dict[tuple[str | None, ...], list[float]] = {}
        """The toleration seconds, negated, as heaps, which may still contain removed ones."""
        for toleration in tolerations:
            self.add(toleration)

    def add(self, toleration: Toleration) -> None:
        self._counts[structs.astuple(toleration)] += 1
        self._change(toleration, 1)

    def remove(self, toleration: Toleration) -> None:
        self._counts[structs.astuple(toleration)] -= 1
        self._change(toleration, -1)

    def covers(self, toleration: Toleration, *, besides_equals: bool = False) -> bool:
        """Whether one toleration of the set tolerates everything that this one does; with `besides_equals` equal ones
        are ignored."""
        equal = self._counts[structs.astuple(toleration)]
        if equal and not besides_equals:
            return True
        self._change(toleration, -equal)
        is_covered = any(self._lasts(key, toleration.tolerationSeconds) for key in _places_covering(toleration))
        self._change(toleration, equal)
        return is_covered

    def _change(self, toleration: Toleration, by: int) -> None:
        if by == 0 or toleration.operator not in ("Equal", "", "Exists"):
            return
        key, limit = _place(toleration)
        counts = self._limits.setdefault(key, Counter())
        if counts[limit] == 0:
            heappush(self._longest.setdefault(key, []), -limit)
        counts[limit] += by

    def _lasts(self, place: tuple[str | None, ...], seconds: int | None) -> bool:
        counts, longest = self._limits.get(place), self._longest.get(place, [])
        while counts is not None and longest and counts[-longest[0]] <= 0:
            heappop(longest)
        return bool(longest) and -longest[0] >= (inf if seconds is None else seconds)


def _place(wide: Toleration) -> tuple[tuple[str | None, ...], float]:
    is_every_value = wide.operator == "Exists"
    key = None if is_every_value and wide.key == "" else wide.key
    is_limited = wide.effect == "NoExecute" and wide.tolerationSeconds is not None
    limit = float(wide.tolerationSeconds or 0) if is_limited else inf
    return (key, wide.effect, None if is_every_value else wide.value), limit


def _places_covering(narrow: Toleration) -> Iterator[tuple[str | None, ...]]:
    for key in (narrow.key, None):
        for effect in {"", narrow.effect}:
            yield key, effect, None
            if narrow.operator == "Equal":
                yield key, effect, narrow.value
