"""Creation and deletion of pods, slow-start batches, and the backoff of replacements."""

import asyncio
import gc

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import Event, Namespace, ResourceQuota
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.controllers.namespace_phase import is_namespace_terminating
from sampan.controllers.ownership.pods import (
    PodControl,
    ReplacementBackoff,
    name_prefix,
    pod_from,
    run_concurrently,
    slow_start,
)
from sampan.machinery import errors
from sampan.machinery.client import Client
from sampan.machinery.copies import copy_of
from sampan.machinery.events import EventRecorder
from tests.controllers.cluster import Cluster
from tests.controllers.ownership.objects import owner
from tests.controllers.ownership.pod_cluster import pod_cluster


@pytest.mark.parametrize(
    ("name", "expected"), [("web", "web-"), ("a.b", "a.b-"), ("a" * 253, "a" * 253 + "-"), ("a" * 254, "a" * 254)]
)
def test_pod_name_prefix(name: str, expected: str) -> None:
    assert name_prefix(name) == expected


def test_pod_from_template() -> None:
    replica_set = owner()
    replica_set.spec.template.metadata = ObjectMeta(name="ignored", labels={"app": "web"}, finalizers=["a.b/c"])
    pod = pod_from(
        replica_set.spec.template, replica_set, labels={"x": "y"}, annotations={"k": "v"}, finalizers=["a.b/c", "d.e/f"]
    )
    meta = pod.metadata
    assert (meta.name, meta.generateName, meta.namespace) == ("", "web-", "default")
    assert (meta.labels, meta.annotations) == ({"app": "web", "x": "y"}, {"k": "v"})
    assert meta.finalizers == ["a.b/c", "d.e/f"]
    assert [reference.uid for reference in meta.ownerReferences] == ["owner-uid"]
    named = pod_from(replica_set.spec.template, replica_set, name="web-0").metadata
    assert (named.name, named.generateName) == ("web-0", "")
    assert replica_set.spec.template.metadata.labels == {"app": "web"}


class RecordedPodControl:
    """A PodControl whose events are stored and can be read."""

    def __init__(self, c: Cluster) -> None:
        self._client: Client = c.client
        self._recorder = EventRecorder(client=c.client, clock=c.clock, component="test")
        self._clock = c.clock
        self.control = PodControl(client=c.client, events=self._recorder)

    async def events(self) -> list[tuple[str, str, str]]:
        sending = asyncio.ensure_future(self._recorder.run())
        await self._clock.settle()
        sending.cancel()
        events = (await self._client.for_kind(Event).list_all()).items
        return [(event.type, event.reason, event.message) for event in events]


async def test_creation_and_deletion_of_pods_record_events() -> None:
    async with pod_cluster() as c:
        replica_set, recording = owner(uid="u"), RecordedPodControl(c)
        pod = await recording.control.create(replica_set.spec.template, "default", replica_set)
        name = pod.metadata.name
        assert name.startswith("web-")
        await recording.control.delete(pod, replica_set)
        with pytest.raises(errors.NotFound):
            await recording.control.delete(pod, replica_set)
        assert await recording.events() == [
            ("Normal", "SuccessfulCreate", f"Created pod: {name}"),
            ("Normal", "SuccessfulDelete", f"Deleted pod: {name}"),
        ]


async def test_rejected_creation_records_an_event() -> None:
    async with pod_cluster() as c:
        quota = {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {"pods": "0"}}}
        stored_quota = await c.client.for_kind(ResourceQuota).create(codec.from_value(quota, ResourceQuota))
        stored_quota = copy_of(stored_quota)
        stored_quota.status.hard, stored_quota.status.used = {"pods": "0"}, {"pods": "0"}
        await c.client.for_kind(ResourceQuota).update_status(stored_quota)
        replica_set, recording = owner(uid="u"), RecordedPodControl(c)
        with pytest.raises(errors.Forbidden):
            await recording.control.create(replica_set.spec.template, "default", replica_set)
        ((type, reason, message),) = await recording.events()
        assert (type, reason) == ("Warning", "FailedCreate")
        assert message.startswith('Error creating: pods "web-')
        assert message.endswith("is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0")


async def test_rejected_creation_in_a_terminating_namespace_records_no_event() -> None:
    async with pod_cluster() as c:
        namespaces = c.client.for_kind(Namespace)
        await namespaces.create(Namespace(metadata=ObjectMeta(name="ends")))
        await namespaces.delete("ends")
        replica_set, recording = owner(uid="u", namespace="ends"), RecordedPodControl(c)
        with pytest.raises(errors.Forbidden) as rejection:
            await recording.control.create(replica_set.spec.template, "ends", replica_set)
        assert is_namespace_terminating(rejection.value)
        assert await recording.events() == []


async def test_template_without_labels_is_rejected() -> None:
    async with pod_cluster() as c:
        replica_set, recording = owner(uid="u"), RecordedPodControl(c)
        replica_set.spec.template.metadata.labels = {}
        with pytest.raises(errors.BadRequest, match="no labels"):
            await recording.control.create(replica_set.spec.template, "default", replica_set)


def run(count: int, first: int, failing: frozenset[int] = frozenset()) -> tuple[int, str, list[int]]:
    """Run `slow_start`: the number of successes, the first error, and the size of each batch."""
    batches: list[int] = []
    running = 0

    async def step(at: int) -> None:
        nonlocal running
        if running == 0:
            batches.append(0)
        running += 1
        batches[-1] += 1
        await asyncio.sleep(0)
        running -= 1
        if at in failing:
            raise ValueError(f"call {at}")

    async def main() -> tuple[int, str, list[int]]:
        outcome = await slow_start(count, first, step)
        return outcome.successes, str(outcome.error or ""), batches

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("count", "first", "failing", "expected"),
    [
        (0, 1, set(), (0, "", [])),
        (1, 1, set(), (1, "", [1])),
        (10, 1, set(), (10, "", [1, 2, 4, 3])),
        (10, 4, set(), (10, "", [4, 6])),
        (10, 1, {0}, (0, "call 0", [1])),
        (10, 1, {2}, (2, "call 2", [1, 2])),
        (10, 1, {4, 6}, (5, "call 4", [1, 2, 4])),
        (3, 9, {1}, (2, "call 1", [3])),
    ],
)
def test_slow_start_doubles_batches_until_a_failure(
    count: int, first: int, failing: set[int], expected: tuple[int, str, list[int]]
) -> None:
    assert run(count, first, frozenset(failing)) == expected


def test_all_at_once_tries_every_call() -> None:
    steps: list[int] = []

    async def step(at: int) -> None:
        steps.append(at)
        if at in (1, 2):
            raise ValueError(f"call {at}")

    assert str(asyncio.run(run_concurrently(4, step))) == "call 1"
    assert steps == [0, 1, 2, 3]
    assert asyncio.run(run_concurrently(0, step)) is None


def test_failure_backoff_doubles_up_to_15_minutes_and_resets() -> None:
    backoff, now, waits = ReplacementBackoff(), 0.0, []
    for _ in range(12):
        assert backoff.remaining_s("k", now) == 0
        backoff.note("k", now)
        waits.append(backoff.remaining_s("k", now))
        now += waits[-1]
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]
    assert backoff.remaining_s("other", now) == 0
    now += 1801
    backoff.note("k", now)
    assert backoff.remaining_s("k", now) == 1, "the back-off starts again after 30 minutes without failure"


def test_cancelled_slow_start_leaves_no_coroutine_unawaited(recwarn: pytest.WarningsRecorder) -> None:
    async def step(at: int) -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        batch = asyncio.create_task(slow_start(2, 2, step))
        await asyncio.sleep(0)  # the batch has created its tasks, which have not run
        batch.cancel()
        await asyncio.gather(batch, return_exceptions=True)

    asyncio.run(main())
    gc.collect()
    assert not [str(warning.message) for warning in recwarn if "never awaited" in str(warning.message)]
