"""Reading a large cluster, filtering its nodes and preempting pods never block the event loop for long."""

import asyncio
import gc

from sampan.api.types.core_v1 import Node
from sampan.api.types.meta_v1 import LabelSelector, ObjectMeta
from sampan.api.types.policy_v1 import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from sampan.machinery.object_key import key_of
from sampan.scheduler.scheduling_queue import QueuedPodInfo
from tests.input_cost import is_cpu_time_within
from tests.scheduler.event_loop_hold import LONGEST_S, longest_hold, node, pod
from tests.scheduler.running_scheduler import running_scheduler

NODES, PODS_PER_NODE = 3000, 3


def test_preemption_in_a_large_cluster_does_not_block_the_event_loop() -> None:
    """All nodes are full of pods that may be preempted, under budgets."""

    async def main() -> float:
        async with running_scheduler() as cluster:
            scheduler = cluster.scheduler
            nodes, budgets = scheduler.informers.for_kind(Node), scheduler.informers.for_kind(PodDisruptionBudget)
            for app in "0123456789":
                budget = PodDisruptionBudget(
                    metadata=ObjectMeta(name=app, namespace="default"),
                    spec=PodDisruptionBudgetSpec(selector=LabelSelector(matchLabels={"app": app})),
                    status=PodDisruptionBudgetStatus(disruptionsAllowed=0),
                )
                budgets._put(key_of(budget), budget)
            node_objects = [node(number) for number in range(NODES)]
            for node_ in node_objects:
                nodes._cache.put(key_of(node_), node_)
            homes = [node.metadata.name for node in node_objects]
            pods = [pod(f"{home}-{at}", home, "1300m", 0) for home in homes for at in range(PODS_PER_NODE)]
            gc.collect()
            gc.freeze()
            stop = asyncio.Event()
            probe = asyncio.create_task(longest_hold(stop))
            await asyncio.sleep(0)
            stops = [await nodes.follow(scheduler.event_handlers.on_node)]
            table = scheduler.table
            for at, pod_ in enumerate(pods):
                table.add_pod(scheduler.pods.info(pod_), pod_.spec.nodeName)
                if not at % 100:
                    await asyncio.sleep(0)
            assert table.count == NODES
            await asyncio.sleep(0)
            info = scheduler.pods.info(pod("big", "", "3", 10))
            queued = QueuedPodInfo(info, since=0.0, first=0.0)
            await scheduler.cycle.run(queued)
            decision = scheduler.history.get("big")
            assert decision is not None
            assert decision.nominated, decision.message
            stop.set()
            for end in stops:
                end()
            gc.unfreeze()
            return await probe

    # Slow code shows in every run, CPU time that the machine takes away only in some of them.
    assert any(is_cpu_time_within(asyncio.run(main()), LONGEST_S) for _ in range(3))
