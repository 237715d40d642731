"""A pod as the scheduler sees it, and the table that creates these objects so that pods share what is equal."""

from __future__ import annotations

from weakref import WeakValueDictionary

from sampan.api.types.core_v1 import Pod
from sampan.scheduler.cache.label_groups import AffinityTerm, AffinityTermTable, LabelGroup
from sampan.scheduler.cache.pod_signature import PodSignature, PodSignatureTable
from sampan.scheduler.cache.resize_requests import spec_with_occupied_resources

DEFAULT_SCHEDULER = "default-scheduler"


class PodInfo:
    __slots__ = ("group", "pod", "priority", "signature", "terms", "uid")

    def __init__(self, pod: Pod, signature: PodSignature, group: LabelGroup, terms: tuple[AffinityTerm, ...]) -> None:
        self.pod, self.signature, self.group, self.terms = pod, signature, group, terms
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
        return self.signature is other.signature and self.group is other.group and self.priority == other.priority


class PodInfoTable:
    def __init__(self) -> None:
        self.signature = PodSignatureTable()
        self.terms = AffinityTermTable()
        self.groups: WeakValueDictionary[object, LabelGroup] = WeakValueDictionary()

    def info(self, pod: Pod) -> PodInfo:
        signature, namespace = self.signature.of(spec_with_occupied_resources(pod)), pod.metadata.namespace
        return PodInfo(pod, signature, self._group(pod), self._terms(signature, namespace))

    def refreshed(self, info: PodInfo, pod: Pod) -> PodInfo:
        """Return the info for a newer version of the pod; this is cheap for changes of the status alone."""
        old = info.pod.metadata
        new = pod.metadata
        if (
            new.generation == old.generation
            and new.labels == old.labels
            and (new.deletionTimestamp is None) == (old.deletionTimestamp is None)
            and spec_with_occupied_resources(pod) is pod.spec
            and spec_with_occupied_resources(info.pod) is info.pod.spec
        ):
            return PodInfo(pod, info.signature, info.group, info.terms)
        return self.info(pod)

    def _group(self, pod: Pod) -> LabelGroup:
        meta = pod.metadata
        is_terminating = meta.deletionTimestamp is not None
        key = (meta.namespace, is_terminating, *sorted(meta.labels.items()))
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = LabelGroup(meta.namespace, meta.labels, is_terminating)
        return group

    def _terms(self, signature: PodSignature, namespace: str) -> tuple[AffinityTerm, ...]:
        if signature.spec.affinity is None:
            return ()
        by_namespace: dict[str, tuple[AffinityTerm, ...]] = signature.parsed("terms", lambda spec: {})
        terms = by_namespace.get(namespace)
        if terms is None:
            terms = by_namespace[namespace] = self.terms.of(signature.spec, namespace)
        return terms
