"""Which services are notified of a change of a pod."""

from collections.abc import Callable, Hashable

import pytest

from sampan.api.types.core_v1 import Pod, Service
from sampan.controllers.services.pods import PodFeed
from sampan.machinery.clock import VirtualClock
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName, key_of
from tests.controllers.cluster import cluster
from tests.controllers.services.backends import pod, service

WEB, DB = NamespacedName("default", "web"), NamespacedName("default", "db")
A = "10.1.0.1"
BOTH = {"app": "web", "role": "db"}


@pytest.mark.parametrize(
    ("old", "new", "keys"),
    [
        (None, pod("a", A), {WEB}),
        (None, pod("a"), set()),
        (None, pod("a", A, labels={"app": "other"}), set()),
        (None, pod("a", A, labels=BOTH), {WEB, DB}),
        (pod("a", A), None, {WEB}),
        (pod("a"), None, set()),
        (pod("a"), pod("a", A), {WEB}),
        (pod("a", A), pod("a", A), set()),
        (pod("a", A), pod("a", A, ready=False), {WEB}),
        (pod("a", A), pod("a", A, is_deleted=True), {WEB}),
        (pod("a", A), pod("a", A, phase="Failed"), {WEB}),
        (pod("a", A), pod("a", A, labels=BOTH), {DB}),
        (pod("a", A, labels=BOTH), pod("a", A), {DB}),
        (pod("a", A, labels=BOTH), pod("a", A, ready=False), {WEB, DB}),
        (pod("a", A), pod("a", A, labels={"app": "web", "more": "x"}), set()),
    ],
)
async def test_keys_that_a_pod_change_notifies(old: Pod | None, new: Pod | None, keys: set[NamespacedName]) -> None:
    async with cluster() as c:
        informers = InformerFactory(client=c.client)
        feed = PodFeed(informers=informers, clock=VirtualClock())
        cache = informers.for_kind(Service)
        for stored in (service("web"), service("db", selector={"role": "db"})):
            cache._put(key_of(stored), stored)
        notified: list[Hashable] = []
        add: Callable[[Hashable], None] = notified.append
        feed._on_pod_changed(old, new, add)
        assert set(notified) == keys
        assert len(notified) == len(keys)
