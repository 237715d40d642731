"""Creation and deletion of pods, slow-start batches, and the backoff of replacements."""

import asyncio
import gc

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import Event, Namespace, ResourceQuota
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.controllers.namespace_phase import is_namespace_terminating
from sampan.controllers.ownership.pods import FailureBackoff, PodControl, all_at_once, name_prefix, pod_from, slow_start
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
def test_what_names_begin_with(name: str, expected: str) -> None:
    assert name_prefix(name) == expected


def test_a_pod_of_a_template() -> None:
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
    """A control whose events are sent, and what they say."""

    def __init__(self, c: Cluster) -> None:
        self._client: Client = c.client
        self._recorder = EventRecorder(client=c.client, clock=c.clock, component="test")
        self._clock = c.clock
        self.control = PodControl(client=c.client, events=self._recorder)

    async def events(self) -> list[tuple[str, str, str]]:
        sending = asyncio.ensure_future(self._recorder.run())
        await self._clock.settle()
        sending.cancel()
        events = (await self._client.of(Event).list_all()).items
        return [(event.type, event.reason, event.message) for event in events]


async def test_pods_are_made_and_deleted_with_events() -> None:
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


async def test_a_refusal_is_reported() -> None:
    async with pod_cluster() as c:
        quota = {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {"pods": "0"}}}
        quota_ = await c.client.of(ResourceQuota).create(codec.from_value(quota, ResourceQuota))
        quota_ = copy_of(quota_)
        quota_.status.hard, quota_.status.used = {"pods": "0"}, {"pods": "0"}
        await c.client.of(ResourceQuota).update_status(quota_)
        replica_set, recording = owner(uid="u"), RecordedPodControl(c)
        with pytest.raises(errors.Forbidden):
            await recording.control.create(replica_set.spec.template, "default", replica_set)
        ((type, reason, message),) = await recording.events()
        assert (type, reason) == ("Warning", "FailedCreate")
        assert message.startswith('Error creating: pods "web-')
        assert message.endswith("is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0")


async def test_no_event_in_a_namespace_that_terminates() -> None:
    async with pod_cluster() as c:
        namespaces = c.client.of(Namespace)
        await namespaces.create(Namespace(metadata=ObjectMeta(name="ends")))
        await namespaces.delete("ends")
        replica_set, recording = owner(uid="u", namespace="ends"), RecordedPodControl(c)
        with pytest.raises(errors.Forbidden) as refusal:
            await recording.control.create(replica_set.spec.template, "ends", replica_set)
        assert is_namespace_terminating(refusal.value)
        assert await recording.events() == []


async def test_pods_without_labels_would_never_be_found_again() -> None:
    async with pod_cluster() as c:
        replica_set, recording = owner(uid="u"), RecordedPodControl(c)
        replica_set.spec.template.metadata.labels = {}
        with pytest.raises(errors.BadRequest, match="no labels"):
            await recording.control.create(replica_set.spec.template, "default", replica_set)


def run(count: int, first: int, failing: frozenset[int] = frozenset()) -> tuple[int, str, list[int]]:
    """Successes, the failure, and how many calls were under way together in each batch."""
    batches: list[int] = []
    under_way = 0

    async def step(at: int) -> None:
        nonlocal under_way
        if under_way == 0:
            batches.append(0)
        under_way += 1
        batches[-1] += 1
        await asyncio.sleep(0)
        under_way -= 1
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
def test_batches_double_until_one_fails(
    count: int, first: int, failing: set[int], expected: tuple[int, str, list[int]]
) -> None:
    assert run(count, first, frozenset(failing)) == expected


def test_all_at_once_tries_every_call() -> None:
    steps: list[int] = []

    async def step(at: int) -> None:
        steps.append(at)
        if at in (1, 2):
            raise ValueError(f"call {at}")

    assert str(asyncio.run(all_at_once(4, step))) == "call 1"
    assert steps == [0, 1, 2, 3]
    assert asyncio.run(all_at_once(0, step)) is None


def test_failures_wait_longer_each_time() -> None:
    backoff, now, waits = FailureBackoff(), 0.0, []
    for _ in range(12):
        assert backoff.held_s("k", now) == 0
        backoff.note("k", now)
        waits.append(backoff.held_s("k", now))
        now += waits[-1]
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]
    assert backoff.held_s("other", now) == 0
    now += 1801
    backoff.note("k", now)
    assert backoff.held_s("k", now) == 1, "after a long rest it begins anew"


def test_a_cancelled_batch_leaves_no_step_unstarted(recwarn: pytest.WarningsRecorder) -> None:
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
