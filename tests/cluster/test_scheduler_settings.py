"""A cluster whose scheduler has its policy in a ConfigMap: it waits until somebody has made it."""

from typing import Any

from sampan.api.types.core_v1 import ConfigMap, Pod
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.cluster.scheduler_settings import SchedulerSettings
from sampan.machinery.clock import VirtualClock
from sampan.testing import Cluster, builders


async def test_the_policy_is_waited_for(caplog: Any) -> None:
    clock = VirtualClock()
    cluster = Cluster(nodes=1, clock=clock)
    cluster._scheduler = SchedulerSettings(policy_map=("kube-system", "policy"))
    async with cluster:
        pods, maps = cluster.client.of(Pod), cluster.client.of(ConfigMap)
        await pods.create(builders.pod("p", namespace="default"))
        await clock.advance(5)
        assert (await pods.get("p", "default")).spec.nodeName == ""
        assert 'the scheduler is not running: configmaps "policy" not found' in caplog.text
        meta = ObjectMeta(name="policy", namespace="kube-system")
        await maps.create(ConfigMap(metadata=meta, data={"policy.cfg": "predicates: [{name: Nothing}]"}))
        await clock.advance(5)
        assert "there is no predicate 'Nothing'" in caplog.text
        await maps.patch("policy", {"data": {"policy.cfg": "predicates: []"}}, "kube-system")
        await clock.advance(5)
        assert (await pods.get("p", "default")).spec.nodeName == "node-0"
