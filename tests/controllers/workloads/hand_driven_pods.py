"""A fake kubelet and scheduler: a test decides when pods are bound, run, fail and end."""

from sampan.api.types.core_v1 import Binding, Event, ObjectReference, Pod
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.values import times
from sampan.controllers.workloads.daemonset.nodes import target_node
from sampan.machinery.client import DeleteParameters, Selection
from tests.controllers.cluster import Cluster

NAMESPACE = "default"
_MOST_ROUNDS = 200


class FakeKubelet:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._pods = cluster, cluster.client.for_kind(Pod)

    async def pods(self) -> dict[str, Pod]:
        await self._cluster.clock.settle()
        pods = (await self._pods.list(Selection(namespace=NAMESPACE))).items
        return {pod.metadata.name: pod for pod in sorted(pods, key=lambda pod: pod.metadata.name)}

    async def run_all(self) -> None:
        """Run all pending pods and remove all deleted pods, until no pod is left to change."""
        for _ in range(_MOST_ROUNDS):
            changed = [await self.step(pod) for pod in (await self.pods()).values()]
            if not any(changed):
                return
        raise AssertionError("the pods do not settle")

    async def step(self, pod: Pod) -> bool:
        if pod.metadata.deletionTimestamp is not None:
            await self.end(pod.metadata.name)
        elif pod.status.phase == "Pending":
            await self.run(pod.metadata.name)
        else:
            return False
        return True

    async def run(self, name: str, *, is_ready: bool = True) -> None:
        pod = await self._pods.get(name, NAMESPACE)
        if not pod.spec.nodeName:
            await self.bind(name, target_node(pod) or "somewhere")
        await self._write(name, "Running", is_ready=is_ready)

    async def bind(self, name: str, node: str) -> None:
        target = ObjectReference(kind="Node", name=node, apiVersion="v1")
        binding = Binding(metadata=ObjectMeta(name=name), target=target)
        await self._pods.create_subresource("binding", name, binding, NAMESPACE)

    async def fail(self, name: str, phase: str = "Failed") -> None:
        await self._write(name, phase, is_ready=False)

    async def end(self, name: str) -> None:
        """Delete the pod with grace period 0, as a kubelet does once its containers have stopped."""
        await self._pods.delete(name, NAMESPACE, options=DeleteParameters(grace_period_s=0))

    async def events(self) -> list[tuple[str, str]]:
        await self._cluster.clock.settle()
        events = (await self._cluster.client.for_kind(Event).list(Selection(namespace=NAMESPACE))).items
        return [(event.reason, event.message) for event in events]

    async def _write(self, name: str, phase: str, *, is_ready: bool) -> None:
        now = times.format_time(self._cluster.clock.now())
        condition = {"type": "Ready", "status": str(is_ready), "lastTransitionTime": now}
        status = {"phase": phase, "conditions": [condition]}
        await self._pods.patch(name, {"status": status}, NAMESPACE, subresource="status")
        await self._cluster.clock.settle()
