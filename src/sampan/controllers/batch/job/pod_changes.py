"""Creation and deletion of the pods of a job, and removal of their finalizers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from sampan.api.semantics.pods import is_ready
from sampan.api.types.batch_v1 import Job
from sampan.api.types.core_v1 import Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod, PodSpec
from sampan.controllers.batch.job.parallelism import PodPlan
from sampan.controllers.batch.job.pod_state import (
    COMPLETION_INDEX,
    FAILURES,
    IGNORED_FAILURES,
    TRACKING,
    failures_before,
    has_limit_per_index,
    ignored_failures_before,
    is_tracked,
)
from sampan.controllers.batch.job.policies import match_failure_policy
from sampan.controllers.batch.job.view import JobView
from sampan.controllers.namespace_phase import is_namespace_terminating
from sampan.controllers.ownership import Expectations, PodControl, slow_start
from sampan.controllers.ownership.pods import FIRST, pod_from, run_concurrently
from sampan.machinery import errors
from sampan.machinery.client import Client
from sampan.machinery.control_loop.own_writes import OwnWrites

INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
_MAX_PREFIX_LENGTH = 58
"""Maximum length of the generateName prefix, to which the API server appends five characters."""


def pod_of(job: Job, index: int | None, pods_by_index: Mapping[int, Pod]) -> Pod:
    """Return the pod to create. `pods_by_index` maps indexes to the failed pods that are replaced."""
    template = job.spec.template
    if index is None:
        return pod_from(template, job, finalizers=[TRACKING])
    index_entry = {COMPLETION_INDEX: str(index)}
    counts = _failure_counts(job, pods_by_index.get(index)) if has_limit_per_index(job) else {}
    return pod_from(
        template,
        job,
        generate_name=_prefix(job.metadata.name, index),
        labels=index_entry,
        annotations={**index_entry, **counts},
        finalizers=[TRACKING],
        spec=_build_indexed_spec(job, index),
    )


def _build_indexed_spec(job: Job, index: int) -> PodSpec:
    spec = job.spec.template.spec
    return msgspec.structs.replace(
        spec,
        hostname=f"{job.metadata.name}-{index}",
        initContainers=[_with_index_variable(container) for container in spec.initContainers],
        containers=[_with_index_variable(container) for container in spec.containers or ()],
    )


def _with_index_variable(container: Container) -> Container:
    if any(variable.name == INDEX_VARIABLE for variable in container.env):
        return container
    source = EnvVarSource(fieldRef=ObjectFieldSelector(fieldPath=f"metadata.labels['{COMPLETION_INDEX}']"))
    variable = EnvVar(name=INDEX_VARIABLE, valueFrom=source)
    return msgspec.structs.replace(container, env=[*container.env, variable])


def _failure_counts(job: Job, replaced: Pod | None) -> dict[str, Any]:
    counted, ignored = 0, 0
    if replaced is not None:
        is_counted = match_failure_policy(job.spec.podFailurePolicy, replaced).is_counted
        counted, ignored = failures_before(replaced) + is_counted, ignored_failures_before(replaced) + (not is_counted)
    return {FAILURES: str(counted)} | ({IGNORED_FAILURES: str(ignored)} if ignored else {})


def _prefix(name: str, index: int) -> str:
    end = f"-{index}-"
    return f"{name[: _MAX_PREFIX_LENGTH - len(end)]}{end}"


_RELEASE = {"metadata": {"$deleteFromPrimitiveList/finalizers": [TRACKING]}}


@dataclass(slots=True)
class PodChangeResult:
    """The pod counts after the changes, and the first error."""

    active: int
    terminating: int
    ready: int
    error: Exception | None = None

    def record_removal(self, pods: Sequence[Pod]) -> None:
        self.active -= len(pods)
        self.terminating += len(pods)
        self.ready -= sum(is_ready(pod) for pod in pods)


class PodChanges:
    def __init__(self, *, client: Client, control: PodControl, expectations: Expectations, writes: OwnWrites) -> None:
        self._pods, self._control, self._expectations, self._writes = (
            client.for_kind(Pod),
            control,
            expectations,
            writes,
        )

    async def carry_out(self, view: JobView, plan: PodPlan) -> PodChangeResult:
        effect = PodChangeResult(len(view.active), view.terminating, view.ready)
        if plan.remove:
            await self._remove(view.job, plan.remove, effect)
        elif plan.create:
            await self._create(view, plan.create, effect)
        return effect

    async def end(self, view: JobView) -> PodChangeResult:
        """Delete the active pods, which keep their finalizers until they are counted."""
        effect = PodChangeResult(len(view.active), view.terminating, view.ready)
        pods = view.active

        async def delete(index: int) -> None:
            await self._delete(pods[index], view.job)
            effect.record_removal([pods[index]])

        effect.error = await run_concurrently(len(pods), delete)
        return effect

    async def release(self, pods: Sequence[Pod]) -> tuple[set[str], Exception | None]:
        """Remove the tracking finalizers. Return the UIDs of the pods that no longer have one, and the first error."""
        released: set[str] = set()

        async def remove_finalizer(index: int) -> None:
            await self._release(pods[index])
            released.add(pods[index].metadata.uid)

        error = await run_concurrently(len(pods), remove_finalizer)
        return released, error

    async def _release(self, pod: Pod) -> None:
        if not is_tracked(pod):
            return
        try:
            released = await self._pods.patch(pod.metadata.name, _RELEASE, pod.metadata.namespace)
        except errors.NotFound:
            self._writes.record_deletion(pod)
            return
        if released.metadata.deletionTimestamp is not None:
            # Without its last finalizer the pod may be gone. The response has no newer resource version then.
            self._writes.record_deletion(released)
        else:
            self._writes.record_write(released)

    async def _delete(self, pod: Pod, job: Job) -> None:
        try:
            await self._control.delete(pod, job)
        except errors.NotFound:
            return

    async def _remove(self, job: Job, pods: Sequence[Pod], effect: PodChangeResult) -> None:
        """Delete surplus pods. Their finalizers are removed first, so that they are not counted."""
        owner = job.metadata.uid
        self._expectations.expect(owner, deletions=[pod.metadata.uid for pod in pods])

        async def remove(index: int) -> None:
            pod = pods[index]
            try:
                await self._release(pod)
                await self._control.delete(pod, job)
            except errors.NotFound:
                self._expectations.drop_deletion(owner, pod.metadata.uid)
            except Exception:
                self._expectations.drop_deletion(owner, pod.metadata.uid)
                raise
            effect.record_removal([pod])

        effect.error = await run_concurrently(len(pods), remove)

    async def _create(self, view: JobView, indexes: Sequence[int | None], effect: PodChangeResult) -> None:
        job = view.job
        self._expectations.expect(job.metadata.uid, creations=len(indexes))

        async def create(index: int) -> None:
            await self._control.create_pod(pod_of(job, indexes[index], view.held), job)

        outcome = await slow_start(len(indexes), FIRST, create)
        effect.active += outcome.successes
        if missing := len(indexes) - outcome.successes:
            self._expectations.lower_creations(job.metadata.uid, missing)
        if outcome.error is not None and not is_namespace_terminating(outcome.error):
            effect.error = outcome.error
