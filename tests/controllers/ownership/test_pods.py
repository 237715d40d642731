"""Making and deleting pods, and what is told of it."""

import asyncio

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import Event, Namespace, ResourceQuota
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.controllers.ownership.pods import PodControl, is_namespace_ending, name_prefix, pod_from
from sampan.machinery import errors
from sampan.machinery.client import Client
from sampan.machinery.copies import copy_of
from sampan.machinery.events import EventRecorder
from tests.controllers.cluster import Cluster
from tests.controllers.ownership.objects import owner
from tests.controllers.ownership.pod_cluster import pod_cluster


@pytest.mark.parametrize(
    ("name", "wanted"), [("web", "web-"), ("a.b", "a.b-"), ("a" * 253, "a" * 253 + "-"), ("a" * 254, "a" * 254)]
)
def test_what_names_begin_with(name: str, wanted: str) -> None:
    assert name_prefix(name) == wanted


def test_a_pod_of_a_template() -> None:
    one = owner()
    one.spec.template.metadata = ObjectMeta(name="ignored", labels={"app": "web"}, finalizers=["a.b/c"])
    made = pod_from(one.spec.template, one, labels={"x": "y"}, annotations={"k": "v"}, finalizers=["a.b/c", "d.e/f"])
    meta = made.metadata
    assert (meta.name, meta.generateName, meta.namespace) == ("", "web-", "default")
    assert (meta.labels, meta.annotations) == ({"app": "web", "x": "y"}, {"k": "v"})
    assert meta.finalizers == ["a.b/c", "d.e/f"]
    assert [found.uid for found in meta.ownerReferences] == ["owner-uid"]
    named = pod_from(one.spec.template, one, name="web-0").metadata
    assert (named.name, named.generateName) == ("web-0", "")
    assert one.spec.template.metadata.labels == {"app": "web"}


class Told:
    """A control whose events are sent, and what they say."""

    def __init__(self, c: Cluster) -> None:
        self._client: Client = c.client
        self._recorder = EventRecorder(client=c.client, clock=c.clock, component="test")
        self._clock = c.clock
        self.control = PodControl(client=c.client, events=self._recorder)

    async def told(self) -> list[tuple[str, str, str]]:
        sending = asyncio.ensure_future(self._recorder.run())
        await self._clock.settle()
        sending.cancel()
        events = (await self._client.of(Event).list_all()).items
        return [(found.type, found.reason, found.message) for found in events]


async def test_pods_are_made_and_deleted_with_events() -> None:
    async with pod_cluster() as c:
        one, said = owner(uid="u"), Told(c)
        made = await said.control.create(one.spec.template, "default", one)
        name = made.metadata.name
        assert name.startswith("web-")
        await said.control.delete(made, one)
        with pytest.raises(errors.NotFound):
            await said.control.delete(made, one)
        assert await said.told() == [
            ("Normal", "SuccessfulCreate", f"Created pod: {name}"),
            ("Normal", "SuccessfulDelete", f"Deleted pod: {name}"),
        ]


async def test_a_refusal_is_told() -> None:
    async with pod_cluster() as c:
        quota = {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {"pods": "0"}}}
        made = await c.client.of(ResourceQuota).create(codec.from_value(quota, ResourceQuota))
        made = copy_of(made)
        made.status.hard, made.status.used = {"pods": "0"}, {"pods": "0"}
        await c.client.of(ResourceQuota).update_status(made)
        one, said = owner(uid="u"), Told(c)
        with pytest.raises(errors.Forbidden):
            await said.control.create(one.spec.template, "default", one)
        ((type, reason, message),) = await said.told()
        assert (type, reason) == ("Warning", "FailedCreate")
        assert message.startswith('Error creating: pods "web-')
        assert message.endswith("is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0")


async def test_nothing_is_told_of_a_namespace_that_ends() -> None:
    async with pod_cluster() as c:
        namespaces = c.client.of(Namespace)
        await namespaces.create(Namespace(metadata=ObjectMeta(name="ends")))
        await namespaces.delete("ends")
        one, said = owner(uid="u", namespace="ends"), Told(c)
        with pytest.raises(errors.Forbidden) as refusal:
            await said.control.create(one.spec.template, "ends", one)
        assert is_namespace_ending(refusal.value)
        assert await said.told() == []


async def test_pods_without_labels_would_never_be_found_again() -> None:
    async with pod_cluster() as c:
        one, said = owner(uid="u"), Told(c)
        one.spec.template.metadata.labels = {}
        with pytest.raises(errors.BadRequest, match="no labels"):
            await said.control.create(one.spec.template, "default", one)
