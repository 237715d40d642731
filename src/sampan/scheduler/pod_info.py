"""A pod as the scheduler sees it, and the table that creates these objects so that pods share what is equal."""

from __future__ import annotations

from weakref import WeakValueDictionary

from sampan.api.types.core_v1 import Pod
from sampan.scheduler.affinity_terms import Term, TermTable
from sampan.scheduler.granted import spec_as_granted
from sampan.scheduler.needs import Needs, NeedsTable
from sampan.scheduler.pod_sorts import LabelGroup

DEFAULT_SCHEDULER = "default-scheduler"


class PodInfo:
    __slots__ = ("group", "needs", "pod", "priority", "terms", "uid")

    def __init__(self, pod: Pod, needs: Needs, group: LabelGroup, terms: tuple[Term, ...]) -> None:
        self.pod, self.needs, self.group, self.terms = pod, needs, group, terms
        self.uid = pod.metadata.uid
        self.priority = pod.spec.priority or 0

    @property
    def namespace(self) -> str:
        return self.pod.metadata.namespace

    @property
    def name(self) -> str:
        return self.pod.metadata.name

    @property
    def full_name(self) -> str:
        return f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"

    def counts_as(self, other: PodInfo) -> bool:
        """Whether both pods have the same effect on a node's resources, counts and priorities."""
        return self.needs is other.needs and self.group is other.group and self.priority == other.priority


class PodTable:
    def __init__(self) -> None:
        self.needs = NeedsTable()
        self.terms = TermTable()
        self.groups: WeakValueDictionary[object, LabelGroup] = WeakValueDictionary()

    def info(self, pod: Pod) -> PodInfo:
        needs, namespace = self.needs.of(spec_as_granted(pod)), pod.metadata.namespace
        return PodInfo(pod, needs, self._group(pod), self._terms(needs, namespace))

    def refreshed(self, info: PodInfo, pod: Pod) -> PodInfo:
        """Return the info for a newer version of the pod; this is cheap for changes of the status alone."""
        old = info.pod.metadata
        new = pod.metadata
        if (
            new.generation == old.generation
            and new.labels == old.labels
            and (new.deletionTimestamp is None) == (old.deletionTimestamp is None)
            and spec_as_granted(pod) is pod.spec
            and spec_as_granted(info.pod) is info.pod.spec
        ):
            return PodInfo(pod, info.needs, info.group, info.terms)
        return self.info(pod)

    def _group(self, pod: Pod) -> LabelGroup:
        meta = pod.metadata
        is_terminating = meta.deletionTimestamp is not None
        key = (meta.namespace, is_terminating, *sorted(meta.labels.items()))
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = LabelGroup(meta.namespace, meta.labels, is_terminating)
        return group

    def _terms(self, needs: Needs, namespace: str) -> tuple[Term, ...]:
        if needs.spec.affinity is None:
            return ()
        by_namespace: dict[str, tuple[Term, ...]] = needs.parsed("terms", lambda spec: {})
        terms = by_namespace.get(namespace)
        if terms is None:
            terms = by_namespace[namespace] = self.terms.of(needs.spec, namespace)
        return terms
