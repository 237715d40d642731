"""A scheduler whose policy is in a ConfigMap waits until that ConfigMap exists and is valid."""

from typing import Any

from sampan.api.types.core_v1 import ConfigMap, Pod
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.cluster.scheduler_settings import SchedulerSettings
from sampan.host.clock import VirtualClock
from sampan.testing import Cluster, builders


async def test_scheduler_starts_when_its_policy_config_map_is_valid(caplog: Any) -> None:
    clock = VirtualClock()
    cluster = Cluster(nodes=1, clock=clock)
    cluster._scheduler = SchedulerSettings(policy_map=("kube-system", "policy"))
    async with cluster:
        pods, maps = cluster.client.for_kind(Pod), cluster.client.for_kind(ConfigMap)
        await pods.create(builders.pod("p", namespace="default"))
        await clock.advance(60)
        assert (await pods.get("p", "default")).spec.nodeName == ""
        fault = 'the scheduler is not running: configmaps "policy" not found'
        assert caplog.text.count(fault) == 1, "the error is logged once, not at each attempt"
        meta = ObjectMeta(name="policy", namespace="kube-system")
        await maps.create(ConfigMap(metadata=meta, data={"policy.cfg": "predicates: [{name: Nothing}]"}))
        await clock.advance(60)
        assert caplog.text.count("there is no predicate 'Nothing'") == 1
        await maps.patch("policy", {"data": {"policy.cfg": "predicates: []"}}, "kube-system")
        await clock.advance(5)
        assert (await pods.get("p", "default")).spec.nodeName == "node-0"
