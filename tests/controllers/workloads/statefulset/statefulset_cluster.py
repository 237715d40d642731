"""A StatefulSet with its pods and claims in a cluster."""

from dataclasses import dataclass
from typing import Any

from sampan.api.types.apps_v1 import ControllerRevision, StatefulSet
from sampan.api.types.core_v1 import PersistentVolumeClaim
from sampan.machinery.client import PatchType
from tests.controllers.cluster import Cluster
from tests.controllers.workloads.hand_driven_pods import NAMESPACE, FakeKubelet
from tests.controllers.workloads.statefulset.objects import stateful_set


@dataclass(slots=True)
class StatefulSetCluster:
    cluster: Cluster
    kubelet: FakeKubelet

    async def create(self, *args: Any, **fields: Any) -> StatefulSet:
        created_stateful_set = await self.cluster.client.for_kind(StatefulSet).create(stateful_set(*args, **fields))
        await self.cluster.clock.settle()
        return created_stateful_set

    async def set(self) -> StatefulSet:
        await self.cluster.clock.settle()
        return await self.cluster.client.for_kind(StatefulSet).get("web", NAMESPACE)

    async def patch(self, spec: dict[str, Any]) -> None:
        await self.cluster.client.for_kind(StatefulSet).patch(
            "web", {"spec": spec}, NAMESPACE, type=PatchType.STRATEGIC
        )
        await self.cluster.clock.settle()

    async def set_image(self, image: str) -> None:
        await self.patch({"template": {"spec": {"containers": [{"name": "c", "image": image}]}}})

    async def images(self) -> dict[str, str]:
        return {name: (pod.spec.containers or [])[0].image for name, pod in (await self.kubelet.pods()).items()}

    async def revisions(self) -> dict[int, ControllerRevision]:
        revisions = (await self.cluster.client.for_kind(ControllerRevision).list()).items
        return {revision.revision: revision for revision in sorted(revisions, key=lambda revision: revision.revision)}

    async def claims(self) -> dict[str, PersistentVolumeClaim]:
        await self.cluster.clock.settle()
        return {
            claim.metadata.name: claim
            for claim in (await self.cluster.client.for_kind(PersistentVolumeClaim).list()).items
        }
