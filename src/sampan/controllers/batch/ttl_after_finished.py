"""ttl-after-finished-controller, which deletes finished jobs whose ttlSecondsAfterFinished has passed."""

from collections.abc import Hashable, Iterable
from typing import Any

from sampan.api.types.batch_v1 import Job
from sampan.api.values.times import parse_time
from sampan.controllers.batch.job.conditions import finished_condition, is_finished
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, DeleteParameters, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.decisions import note_decision
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName, key_of


class UnknownFinish(ValueError):
    """A finished job whose condition has no transition time."""


def expires_in_s(job: Job | None, now: float) -> float | None:
    """Return the seconds until the job expires, or None if it has not finished or has no TTL."""
    if job is None or job.metadata.deletionTimestamp is not None or job.spec.ttlSecondsAfterFinished is None:
        return None
    finished = finished_condition(job)
    if finished is None:
        return None
    if finished.lastTransitionTime is None:
        name = f"{job.metadata.namespace}/{job.metadata.name}"
        raise UnknownFinish(f"unable to find the time when the Job {name} finished")
    return parse_time(finished.lastTransitionTime) + job.spec.ttlSecondsAfterFinished - now


def _expiring_keys(job: Any) -> Iterable[Hashable]:
    return (key_of(job),) if job.spec.ttlSecondsAfterFinished is not None and is_finished(job) else ()


class TtlAfterFinishedController:
    name = "ttl-after-finished-controller"

    def __init__(self, *, client: Client, informers: InformerFactory, clock: Clock) -> None:
        self._client, self._jobs, self._clock = client.for_kind(Job), informers.for_kind(Job).lister, clock
        self.watches = (Watch(resource_of(Job), _expiring_keys),)

    async def reconcile(self, key: NamespacedName) -> float | None:
        remaining_s = expires_in_s(self._jobs.get_by_key(key), self._clock.now())
        if remaining_s is None or remaining_s > 0:
            return remaining_s
        try:
            fresh = await self._client.get(key.name, key.namespace)
            remaining_s = expires_in_s(fresh, self._clock.now())
            if remaining_s is None or remaining_s > 0:
                return remaining_s
            options = DeleteParameters(propagation="Foreground", uid=fresh.metadata.uid)
            note_decision(f"{fresh.spec.ttlSecondsAfterFinished} s after its end", "a job that is older", "delete it")
            await self._client.delete(key.name, key.namespace, options=options)
        except errors.NotFound:
            return None
        return None
