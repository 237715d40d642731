"""taint-eviction-controller."""

from typing import Any

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import Node, Pod, Taint, Toleration
from sampan.controllers.nodes.taint_eviction import ScheduledEviction, plan
from sampan.controllers.nodes.taints import toleration_s
from sampan.machinery.client import PatchType
from sampan.machinery.object_key import NamespacedName
from tests.apiserver.pods import pod_value
from tests.controllers.cluster import Cluster, cluster
from tests.controllers.nodes.fleet import Fleet

NAME = "taint-eviction-controller"
TAINT = {"key": "k", "value": "v", "effect": "NoExecute"}


def pod(name: str, *tolerations: dict[str, Any]) -> Pod:
    return codec.from_value(pod_value({"tolerations": list(tolerations)}, name=name, uid=f"uid-{name}"), Pod)


def taints(*keys: str) -> list[Taint]:
    return [Taint(key=key, value="v", effect="NoExecute") for key in keys]


@pytest.mark.parametrize(
    ("keys", "tolerations", "seconds"),
    [
        (["k"], [], 0),
        (["k"], [{"key": "k", "operator": "Exists"}], None),
        (["k"], [{"operator": "Exists"}], None),
        (["k"], [{"key": "k", "value": "v"}], None),
        (["k"], [{"key": "k", "value": "w"}], 0),
        (["k"], [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}], 0),
        (["k"], [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}], 5),
        (["k"], [{"key": "k", "operator": "Exists", "tolerationSeconds": -5}], 0),
        (["k", "l"], [{"key": "k", "operator": "Exists", "tolerationSeconds": 5}], 0),
        (["k", "l"], [{"operator": "Exists", "tolerationSeconds": 9}, {"key": "k", "value": "v"}], 9),
        (
            ["k", "l"],
            [
                {"key": "k", "operator": "Exists", "tolerationSeconds": 9},
                {"key": "l", "operator": "Exists", "tolerationSeconds": 4},
            ],
            4,
        ),
        (["k", "l"], [{"key": "k", "operator": "Exists", "tolerationSeconds": 9}, {"key": "l", "value": "v"}], 9),
    ],
)
def test_shortest_toleration_of_all_taints(
    keys: list[str], tolerations: list[dict[str, Any]], seconds: float | None
) -> None:
    assert (
        toleration_s(taints(*keys), [codec.from_value(toleration, Toleration) for toleration in tolerations]) == seconds
    )


FOR_TEN = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 10}
FOREVER = {"key": "k", "operator": "Exists"}
KEY = NamespacedName("default", "a")


@pytest.mark.parametrize(
    ("pods", "keys", "pending", "due", "cancelled", "next_in_s"),
    [
        ([pod("a")], [], {}, [], [], None),
        ([pod("a")], ["k"], {}, [KEY], [], 0),
        ([pod("a", FOR_TEN)], ["k"], {}, [], [], 10),
        ([pod("a", FOREVER)], ["k"], {}, [], [], None),
        ([pod("a", FOR_TEN)], ["k"], {KEY: ScheduledEviction("uid-a", 103)}, [], [], 3),
        ([pod("a", FOR_TEN)], ["k"], {KEY: ScheduledEviction("uid-other", 103)}, [], [KEY], 10),
        ([pod("a", FOR_TEN)], ["k"], {KEY: ScheduledEviction("uid-a", 100)}, [KEY], [], 0),
        ([pod("a", FOR_TEN)], [], {KEY: ScheduledEviction("uid-a", 103)}, [], [KEY], None),
        ([], ["k"], {KEY: ScheduledEviction("uid-a", 103)}, [], [KEY], None),
        ([pod("a", FOREVER)], ["k"], {KEY: ScheduledEviction("uid-a", 103)}, [], [KEY], None),
        ([pod("a", FOR_TEN)], ["k", "l"], {KEY: ScheduledEviction("uid-a", 103)}, [KEY], [KEY], 0),
        ([pod("a")], ["k"], {KEY: ScheduledEviction("uid-a", 99, is_done=True)}, [], [], None),
        ([pod("a")], [], {KEY: ScheduledEviction("uid-a", 99, is_done=True)}, [], [], None),
    ],
)
def test_evictions_due_and_cancelled(
    pods: list[Pod],
    keys: list[str],
    pending: dict[NamespacedName, ScheduledEviction],
    due: list[NamespacedName],
    cancelled: list[NamespacedName],
    next_in_s: float | None,
) -> None:
    new_plan = plan(taints(*keys), pods, pending, 100.0)
    assert (new_plan.due(100.0), new_plan.cancelled, new_plan.next_in_s(100.0)) == (due, cancelled, next_in_s)


async def taint(c: Cluster, *values: dict[str, str]) -> None:
    await c.client.for_kind(Node).patch("n", {"spec": {"taints": list(values) or None}}, type=PatchType.MERGE)
    await c.clock.settle()


async def deleted_pods(c: Cluster) -> list[str]:
    """Names of the pods that are deleted or have a deletion timestamp."""
    await c.clock.settle()
    deletions = {
        pod.metadata.name: pod.metadata.deletionTimestamp for pod in (await c.client.for_kind(Pod).list()).items
    }
    return sorted(name for name in ("now", "later", "never") if name not in deletions or deletions[name])


async def test_pods_are_evicted_after_their_toleration_seconds() -> None:
    async with cluster() as c, c.running(NAME):
        fleet = Fleet(c)
        await fleet.account()
        await fleet.add("n")
        await fleet.pod("now", "n")
        await fleet.pod("later", "n", tolerations=[FOR_TEN])
        await fleet.pod("never", "n", tolerations=[FOREVER])
        await taint(c, TAINT)
        assert await deleted_pods(c) == ["now"]
        await c.clock.advance(9)
        assert await deleted_pods(c) == ["now"]
        await c.clock.advance(2)
        assert await deleted_pods(c) == ["later", "now"]
        assert await fleet.events("TaintManagerEviction") == [
            (name, "TaintManagerEviction", f"Marking for deletion Pod default/{name}") for name in ("later", "now")
        ]


async def test_removed_taint_cancels_the_eviction() -> None:
    async with cluster() as c, c.running(NAME):
        fleet = Fleet(c)
        await fleet.account()
        await fleet.add("n")
        await fleet.pod("later", "n", tolerations=[FOR_TEN])
        await taint(c, TAINT)
        await c.clock.advance(5)
        await taint(c)
        await c.clock.advance(60)
        assert await fleet.pods() == ["later"]
        assert await fleet.events("TaintManagerEviction") == [
            ("later", "TaintManagerEviction", "Cancelling deletion of Pod default/later")
        ]
        await taint(c, TAINT)
        await c.clock.advance(9)
        assert await deleted_pods(c) == ["never", "now"], "tolerationSeconds start again with the new taint"
        await c.clock.advance(2)
        assert "later" in await deleted_pods(c)


async def test_pods_created_on_a_tainted_node_are_evicted() -> None:
    async with cluster() as c:
        fleet = Fleet(c)
        await fleet.account()
        await fleet.add("n")
        async with c.running(NAME):
            await taint(c, TAINT)
            await fleet.pod("now", "n")
            await fleet.pod("never", "n", tolerations=[FOREVER])
            await fleet.pod("later", "n", tolerations=[{**FOR_TEN, "tolerationSeconds": 100}])
            await c.clock.advance(1)
            assert await deleted_pods(c) == ["now"]
        await c.client.for_kind(Pod).delete("now", "default")
        before = await c.revision()
        async with c.running(NAME):
            await c.clock.advance(60)
        assert await c.revision() <= before + 2, "a restart writes only to the pod that is still terminating"
