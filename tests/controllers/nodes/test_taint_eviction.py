"""taint-eviction-controller."""

from typing import Any

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import Node, Pod, Taint, Toleration
from sampan.controllers.nodes.taint_eviction import Eviction, plan
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
def test_how_long_a_pod_may_stay(keys: list[str], tolerations: list[dict[str, Any]], seconds: float | None) -> None:
    assert (
        toleration_s(taints(*keys), [codec.from_value(toleration, Toleration) for toleration in tolerations]) == seconds
    )


FOR_TEN = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 10}
FOREVER = {"key": "k", "operator": "Exists"}
KEY = NamespacedName("default", "a")


@pytest.mark.parametrize(
    ("present", "keys", "known", "due", "cancelled", "next_in_s"),
    [
        ([pod("a")], [], {}, [], [], None),
        ([pod("a")], ["k"], {}, [KEY], [], 0),
        ([pod("a", FOR_TEN)], ["k"], {}, [], [], 10),
        ([pod("a", FOREVER)], ["k"], {}, [], [], None),
        ([pod("a", FOR_TEN)], ["k"], {KEY: Eviction("uid-a", 103)}, [], [], 3),
        ([pod("a", FOR_TEN)], ["k"], {KEY: Eviction("uid-other", 103)}, [], [KEY], 10),
        ([pod("a", FOR_TEN)], ["k"], {KEY: Eviction("uid-a", 100)}, [KEY], [], 0),
        ([pod("a", FOR_TEN)], [], {KEY: Eviction("uid-a", 103)}, [], [KEY], None),
        ([], ["k"], {KEY: Eviction("uid-a", 103)}, [], [KEY], None),
        ([pod("a", FOREVER)], ["k"], {KEY: Eviction("uid-a", 103)}, [], [KEY], None),
        ([pod("a", FOR_TEN)], ["k", "l"], {KEY: Eviction("uid-a", 103)}, [KEY], [KEY], 0),
        ([pod("a")], ["k"], {KEY: Eviction("uid-a", 99, is_done=True)}, [], [], None),
        ([pod("a")], [], {KEY: Eviction("uid-a", 99, is_done=True)}, [], [], None),
    ],
)
def test_the_plan(
    present: list[Pod],
    keys: list[str],
    known: dict[NamespacedName, Eviction],
    due: list[NamespacedName],
    cancelled: list[NamespacedName],
    next_in_s: float | None,
) -> None:
    new_plan = plan(taints(*keys), present, known, 100.0)
    assert (new_plan.due(100.0), new_plan.cancelled, new_plan.next_in_s(100.0)) == (due, cancelled, next_in_s)


async def taint(c: Cluster, *values: dict[str, str]) -> None:
    await c.client.of(Node).patch("n", {"spec": {"taints": list(values) or None}}, type=PatchType.MERGE)
    await c.clock.settle()


async def leaving(c: Cluster) -> list[str]:
    """Who is gone or going."""
    await c.clock.settle()
    deletions = {pod.metadata.name: pod.metadata.deletionTimestamp for pod in (await c.client.of(Pod).list()).items}
    return sorted(name for name in ("now", "later", "never") if name not in deletions or deletions[name])


async def test_pods_leave_as_their_tolerations_say() -> None:
    async with cluster() as c, c.running(NAME):
        fleet = Fleet(c)
        await fleet.account()
        await fleet.add("n")
        await fleet.pod("now", "n")
        await fleet.pod("later", "n", tolerations=[FOR_TEN])
        await fleet.pod("never", "n", tolerations=[FOREVER])
        await taint(c, TAINT)
        assert await leaving(c) == ["now"]
        await c.clock.advance(9)
        assert await leaving(c) == ["now"]
        await c.clock.advance(2)
        assert await leaving(c) == ["later", "now"]
        assert await fleet.events("TaintManagerEviction") == [
            (name, "TaintManagerEviction", f"Marking for deletion Pod default/{name}") for name in ("later", "now")
        ]


async def test_a_taint_that_goes_calls_it_off() -> None:
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
        assert await leaving(c) == ["never", "now"], "the time begins anew"
        await c.clock.advance(2)
        assert "later" in await leaving(c)


async def test_pods_that_come_to_a_tainted_node_and_a_second_run() -> None:
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
            assert await leaving(c) == ["now"]
        await c.client.of(Pod).delete("now", "default")
        before = await c.revision()
        async with c.running(NAME):
            await c.clock.advance(60)
        assert await c.revision() <= before + 2, "only the pod that still goes is told again"
