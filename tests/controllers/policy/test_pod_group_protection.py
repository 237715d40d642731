"""A deleted PodGroup is kept while one of its pods is active."""

from dataclasses import replace

from sampan.api.codec import json as codec
from sampan.api.feature_gates import FeatureGates
from sampan.api.types.core_v1 import Pod, PodSchedulingGroup, ServiceAccount
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.scheduling_v1beta1 import PodGroup
from sampan.controllers.policy.pod_group_protection import FINALIZER, PodGroupProtectionController
from tests.apiserver.pods import pod_value
from tests.controllers.cluster import CONFIG, cluster, names_of

GATES = FeatureGates({"GenericWorkload": True}, level=37)
SERVED = {"scheduling.k8s.io/v1beta1": True}


async def test_group_is_deleted_once_its_last_pod_has_ended() -> None:
    async with cluster(SERVED, GATES) as c:
        meta = ObjectMeta(name="default", namespace="default")
        await c.client.for_kind(ServiceAccount).create(ServiceAccount(metadata=meta))
        groups, pods = c.client.for_kind(PodGroup), c.client.for_kind(Pod)
        value = {"metadata": {"namespace": "default"}, "spec": {"schedulingPolicy": {"basic": {}}}}
        for name in ("used", "free"):
            group = codec.from_value(value, PodGroup)
            group.metadata.name = name
            assert FINALIZER in (await groups.create(group)).metadata.finalizers
        pod = codec.from_value(pod_value(name="p"), Pod)
        pod.spec.schedulingGroup = PodSchedulingGroup(podGroupName="used")
        await pods.create(pod)
        config = replace(CONFIG, feature_gates=GATES)
        async with c.running(PodGroupProtectionController.name, config=config):
            for name in ("used", "free"):
                await groups.delete(name, "default")
            await c.clock.settle()
            assert names_of((await groups.list()).items) == ["used"]
            await pods.patch("p", {"status": {"phase": "Succeeded"}}, "default", subresource="status")
            await c.clock.settle()
            assert names_of((await groups.list()).items) == []
