"""Creation, deletion and release of a job's pods."""

from collections.abc import Sequence
from dataclasses import dataclass

from sampan.api.semantics.pods import is_ready
from sampan.api.types.batch_v1 import Job
from sampan.api.types.core_v1 import Pod
from sampan.controllers.batch.job.facts import TRACKING, is_tracked
from sampan.controllers.batch.job.templates import pod_of
from sampan.controllers.batch.job.view import JobView
from sampan.controllers.batch.job.wanted import PodPlan
from sampan.controllers.ownership import Expectations, OwnWrites, PodControl, slow_start
from sampan.controllers.ownership.batches import FIRST, all_at_once
from sampan.controllers.ownership.pods import is_namespace_ending
from sampan.machinery import errors
from sampan.machinery.client import Client

_RELEASE = {"metadata": {"$deleteFromPrimitiveList/finalizers": [TRACKING]}}


@dataclass(slots=True)
class Effect:
    """The pod counts after the changes, and the first error."""

    active: int
    terminating: int
    ready: int
    error: Exception | None = None

    def removed(self, pods: Sequence[Pod]) -> None:
        self.active -= len(pods)
        self.terminating += len(pods)
        self.ready -= sum(is_ready(pod) for pod in pods)


class PodChanges:
    def __init__(self, *, client: Client, control: PodControl, expectations: Expectations, writes: OwnWrites) -> None:
        self._pods, self._control, self._expectations, self._writes = client.of(Pod), control, expectations, writes

    async def carry_out(self, view: JobView, plan: PodPlan) -> Effect:
        effect = Effect(len(view.active), view.terminating, view.ready)
        if plan.remove:
            await self._remove(view.job, plan.remove, effect)
        elif plan.create:
            await self._create(view, plan.create, effect)
        return effect

    async def end(self, view: JobView) -> Effect:
        """Delete the active pods, which keep their finalizers until they are counted."""
        effect = Effect(len(view.active), view.terminating, view.ready)
        pods = view.active

        async def delete(at: int) -> None:
            await self._delete(pods[at], view.job)
            effect.removed([pods[at]])

        effect.error = await all_at_once(len(pods), delete)
        return effect

    async def release(self, pods: Sequence[Pod]) -> tuple[set[str], Exception | None]:
        """Remove the tracking finalizers. Return the UIDs of the pods that no longer have one, and the first error."""
        released: set[str] = set()

        async def one(at: int) -> None:
            await self._release(pods[at])
            released.add(pods[at].metadata.uid)

        error = await all_at_once(len(pods), one)
        return released, error

    async def _release(self, pod: Pod) -> None:
        if not is_tracked(pod):
            return
        try:
            self._writes.wrote(await self._pods.patch(pod.metadata.name, _RELEASE, pod.metadata.namespace))
        except errors.NotFound:
            self._writes.gone(pod)

    async def _delete(self, pod: Pod, job: Job) -> None:
        try:
            await self._control.delete(pod, job)
        except errors.NotFound:
            return

    async def _remove(self, job: Job, pods: Sequence[Pod], effect: Effect) -> None:
        """Delete surplus pods. Their finalizers are removed first, so that they are not counted."""
        owner = job.metadata.uid
        self._expectations.expect(owner, deletions=[pod.metadata.uid for pod in pods])

        async def remove(at: int) -> None:
            pod = pods[at]
            try:
                await self._release(pod)
                await self._control.delete(pod, job)
            except errors.NotFound:
                self._expectations.deleted(owner, pod.metadata.uid)
            except Exception:
                self._expectations.deleted(owner, pod.metadata.uid)
                raise
            effect.removed([pod])

        effect.error = await all_at_once(len(pods), remove)

    async def _create(self, view: JobView, indexes: Sequence[int | None], effect: Effect) -> None:
        job = view.job
        self._expectations.expect(job.metadata.uid, creations=len(indexes))

        async def create(at: int) -> None:
            await self._control.create_pod(pod_of(job, indexes[at], view.held), job)

        outcome = await slow_start(len(indexes), FIRST, create)
        effect.active += outcome.successes
        if missing := len(indexes) - outcome.successes:
            self._expectations.created(job.metadata.uid, missing)
        if outcome.error is not None and not is_namespace_ending(outcome.error):
            effect.error = outcome.error
