"""The recorded history of pods, workloads and nodes, and the rules that every change in it must obey."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sampan.api.codec import json as codec
from sampan.api.types.apps_v1 import Deployment, ReplicaSet
from sampan.api.types.batch_v1 import Job
from sampan.api.types.core_v1 import Node, Pod
from sampan.machinery.client import ADDED, DELETED, MODIFIED, resource_of
from sampan.storage.backend import Backend, EventBatch, StoreEvent

_WATCHED = (Pod, Deployment, ReplicaSet, Job, Node)
_INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass(frozen=True, slots=True)
class Change:
    version: int
    type: str
    object: Any


class History:
    """Records the changes of the store itself, which outlives its API servers."""

    def __init__(self, *, backend: Backend) -> None:
        self._backend = backend
        self._types = {f"{resource_of(kind).storage_prefix}/": kind for kind in _WATCHED}
        self._now: dict[str, Any] = {}
        """Current objects by key."""
        self.changes: list[Change] = []
        self.pods: dict[str, Pod] = {}
        """Pods by uid, as last seen."""

    async def follow(self) -> None:
        """Record changes until cancelled."""
        async with self._backend.watch("/registry/", after=1, on_batch=self._note) as events:
            async for _ in events:
                pass

    def _note(self, batch: EventBatch) -> None:
        for event in batch.events:
            kind = next((kind for prefix, kind in self._types.items() if event.key.startswith(prefix)), None)
            if kind is not None:
                self._note_one(event, kind)

    def _note_one(self, event: StoreEvent, kind: type[Any]) -> None:
        if event.value is None:
            obj, type = self._now.pop(event.key), DELETED
        else:
            obj, type = codec.read(event.value, kind), ADDED if event.is_create else MODIFIED
            self._now[event.key] = obj
        self.changes.append(Change(event.revision, type, obj))
        if isinstance(obj, Pod):
            self.pods[obj.metadata.uid] = obj


class Rules:
    """Finds violations in a history: too many pods, duplicates, and pods that are deleted while they run."""

    def __init__(self) -> None:
        self._now: dict[str, Any] = {}
        """Existing objects by uid."""
        self._pods: dict[str, dict[str, Pod]] = defaultdict(dict)
        """Pods by the uid of their owner."""
        self._allowed: dict[str, tuple[int, int]] = {}
        """Current and previous number of replicas by the uid of the ReplicaSet."""
        self._nodes: dict[str, str] = {}

    def violations(self, changes: Sequence[Change]) -> Iterator[str]:
        for change in changes:
            for fault in self._check(change):
                yield f"at {change.version}: {fault}"

    def _check(self, change: Change) -> Iterator[str]:
        obj, uid = change.object, change.object.metadata.uid
        before = self._now.get(uid)
        if change.type == DELETED:
            self._now.pop(uid, None)
        else:
            self._now[uid] = obj
        if isinstance(obj, Pod):
            yield from self._check_pod(change, before)
        elif isinstance(obj, ReplicaSet):
            self._allowed[uid] = (obj.spec.replicas or 0, self._allowed.get(uid, (0, 0))[0])
            yield from self._check_replica_set(obj)
        elif isinstance(obj, Node):
            self._note_node(change)

    def _note_node(self, change: Change) -> None:
        name = change.object.metadata.name
        if change.type == DELETED:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = change.object.metadata.uid

    def _check_replica_set(self, changed: ReplicaSet) -> Iterator[str]:
        """The ReplicaSets of a Deployment must not request more replicas than `replicas` plus `maxSurge`."""
        for reference in changed.metadata.ownerReferences:
            owner = self._now.get(reference.uid)
            if owner is None:
                continue
            siblings = [
                replica_set
                for replica_set in self._now.values()
                if isinstance(replica_set, ReplicaSet) and _owner(replica_set) == reference.uid
            ]
            total, most = sum(sibling.spec.replicas or 0 for sibling in siblings), owner.spec.replicas + _surge(owner)
            if total > most:
                yield f"{owner.metadata.name}: {total} of {most} replicas"

    def _check_pod(self, change: Change, before: Pod | None) -> Iterator[str]:
        pod: Pod = change.object
        owner = _owner(pod)
        if not owner:
            return
        others = self._pods[owner]
        if change.type == DELETED:
            others.pop(pod.metadata.uid, None)
            yield from self._check_deleted_pod(pod, before or pod)
            return
        others[pod.metadata.uid] = pod
        if change.type == ADDED:
            yield from self._check_new_pod(pod, owner, list(others.values()))

    def _check_new_pod(self, pod: Pod, owner: str, pods: Sequence[Pod]) -> Iterator[str]:
        kind, active = pod.metadata.ownerReferences[0].kind, [pod for pod in pods if _is_active(pod)]
        if kind == "ReplicaSet":
            if len(active) > (most := max(self._allowed.get(owner, (0, 0)))):
                yield f"{pod.metadata.name} is one of {len(active)} where {most} are allowed"
        elif kind == "Job":
            yield from self._check_new_pod_of_job(pod, self._now.get(owner), active)
        elif kind == "DaemonSet":
            there = [
                candidate
                for candidate in pods
                if _target(candidate) == _target(pod) and candidate.status.phase not in ("Failed", "Succeeded")
            ]
            if len(there) > 1:
                yield f"{pod.metadata.name} is one of {len(there)} on {_target(pod)}"

    def _check_new_pod_of_job(self, pod: Pod, owner: Job | None, active: Sequence[Pod]) -> Iterator[str]:
        if owner is None or len(active) > (owner.spec.parallelism or 0):
            yield f"{pod.metadata.name} is one of {len(active)} at work"
        index = pod.metadata.annotations.get(_INDEX)
        same = [pod for pod in active if pod.metadata.annotations.get(_INDEX) == index]
        if index is not None and len(same) > 1:
            yield f"{pod.metadata.name} is one of {len(same)} for its index"

    def _check_deleted_pod(self, pod: Pod, last: Pod) -> Iterator[str]:
        """A pod of a StatefulSet must not be removed while its containers run, unless its node is gone."""
        runs = any(status.state.running is not None for status in last.status.containerStatuses)
        if runs and pod.metadata.ownerReferences[0].kind == "StatefulSet" and pod.spec.nodeName in self._nodes:
            yield f"{pod.metadata.name} ({pod.metadata.uid}) went while it ran on {pod.spec.nodeName}"


def _owner(obj: Any) -> str:
    return next((reference.uid for reference in obj.metadata.ownerReferences if reference.controller), "")


def _surge(owner: Deployment) -> int:
    rolling = owner.spec.strategy.rollingUpdate
    return int(rolling.maxSurge) if rolling is not None and rolling.maxSurge is not None else 0


def _is_active(pod: Pod) -> bool:
    return pod.metadata.deletionTimestamp is None and pod.status.phase not in ("Succeeded", "Failed")


def _target(pod: Pod) -> str:
    """Return the node for which a pod of a DaemonSet was created."""
    affinity: Any = pod.spec.affinity
    terms = affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms
    return str(terms[0].matchFields[0].values[0])
