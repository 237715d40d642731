"""Conformance tests of sig-apps for DaemonSet. The first paragraph of a docstring is the official test name."""

from typing import Any

from sampan.api.types.apps_v1 import DaemonSet
from sampan.api.types.core_v1 import Node, Pod
from sampan.machinery.client import Selection
from tests.e2e.conformance.apps.sets import (
    NEW,
    NODES,
    OLD,
    Sets,
    check_status_endpoints,
    daemon_set,
    run_scenario,
    template,
)

EVERYWHERE = list(NODES)
ROLLING = {"type": "RollingUpdate"}


async def check_status(c: Sets) -> None:
    status = (await c.get(DaemonSet)).status
    assert status.desiredNumberScheduled == status.currentNumberScheduled == status.numberReady == len(NODES)


async def color(c: Sets, node: str, value: str | None) -> None:
    await c.client.for_kind(Node).patch(node, {"metadata": {"labels": {"daemonset-color": value}}})
    await c.clock.advance(60)


def test_simple_daemon() -> None:
    """[sig-apps] Daemon set should run and stop simple daemon [Conformance]"""

    async def scenario(c: Sets) -> None:
        await c.create(daemon_set())
        assert await c.nodes() == EVERYWHERE
        await check_status(c)
        gone = (await c.pods())[0].metadata.name
        await c.delete_pod(gone)
        assert await c.nodes() == EVERYWHERE
        assert gone not in [pod.metadata.name for pod in await c.pods()]
        await c.client.for_kind(DaemonSet).delete("daemon-set", "default")
        await c.clock.advance(60)
        assert await c.pods() == []

    run_scenario(scenario)


def test_complex_daemon() -> None:
    """[sig-apps] Daemon set should run and stop complex daemon [Conformance]"""

    async def scenario(c: Sets) -> None:
        await c.create(daemon_set(pods=template(nodeSelector={"daemonset-color": "blue"})))
        assert await c.nodes() == []
        await color(c, "node-1", "blue")
        assert await c.nodes() == ["node-1"]
        await color(c, "node-1", "green")
        assert await c.nodes() == []
        spec: dict[str, Any] = {"template": {"spec": {"nodeSelector": {"daemonset-color": "green"}}}}
        await c.patch(DaemonSet, {**spec, "updateStrategy": ROLLING})
        assert await c.nodes() == ["node-1"]
        assert (await c.get(DaemonSet)).status.numberReady == 1

    run_scenario(scenario)


def test_failed_pods_are_recreated() -> None:
    """[sig-apps] Daemon set should retry creating failed daemon pods [Conformance]"""

    async def scenario(c: Sets) -> None:
        await c.create(daemon_set())
        assert await c.nodes() == EVERYWHERE
        failed = (await c.pods())[0].metadata
        patch = {"status": {"phase": "Failed"}}
        await c.client.for_kind(Pod).patch(failed.name, patch, "default", subresource="status")
        await c.clock.advance(60)
        assert await c.nodes() == EVERYWHERE
        assert failed.uid not in [pod.metadata.uid for pod in await c.pods()]

    run_scenario(scenario)


def test_rolling_update() -> None:
    """[sig-apps] Daemon set should update pod when spec was updated and update strategy is RollingUpdate
    [Conformance]"""

    async def scenario(c: Sets) -> None:
        await c.create(daemon_set(updateStrategy=ROLLING))
        (first,) = await c.revisions()
        hash = first.metadata.labels["controller-revision-hash"]
        assert {pod.metadata.labels["controller-revision-hash"] for pod in await c.pods()} == {hash}
        await c.set_image(DaemonSet, NEW, 300)
        assert set((await c.images()).values()) == {NEW}
        assert await c.nodes() == EVERYWHERE
        second = (await c.revisions())[-1]
        assert (first.revision, second.revision) == (1, 2)
        hash = second.metadata.labels["controller-revision-hash"]
        assert {pod.metadata.labels["controller-revision-hash"] for pod in await c.pods()} == {hash}
        assert (await c.get(DaemonSet)).status.updatedNumberScheduled == len(NODES)

    run_scenario(scenario)


def test_rollback_without_restarts() -> None:
    """[sig-apps] Daemon set should rollback without unnecessary restarts [Conformance]"""

    async def scenario(c: Sets) -> None:
        pods = template()
        pods["metadata"] = {**pods["metadata"], "annotations": {}}
        await c.create(daemon_set(pods=pods, updateStrategy=ROLLING))
        broken = {"hollow.sampan.dev/pull-error": "there is no such image"}
        containers = [{"name": "webserver", "image": "foo:non-existent"}]
        await c.patch(
            DaemonSet, {"template": {"metadata": {"annotations": broken}, "spec": {"containers": containers}}}
        )
        images = await c.images()
        kept = {name for name, image in images.items() if image == OLD}
        assert sorted(images.values()) == [OLD, OLD, "foo:non-existent"], "the update is in progress"
        repaired = {"hollow.sampan.dev/pull-error": None}
        containers = [{"name": "webserver", "image": OLD}]
        await c.patch(
            DaemonSet, {"template": {"metadata": {"annotations": repaired}, "spec": {"containers": containers}}}, 300
        )
        assert set((await c.images()).values()) == {OLD}
        assert await c.nodes() == EVERYWHERE
        assert kept <= set(await c.images()), "pods of the old revision were not restarted"

    run_scenario(scenario)


def test_list_and_delete_collection() -> None:
    """[sig-apps] Daemon set should list and delete a collection of DaemonSets [Conformance]"""

    async def scenario(c: Sets) -> None:
        await c.create(daemon_set())
        await check_status(c)
        sets, ours = c.client.for_kind(DaemonSet), Selection(labels="app=set")
        assert len((await sets.list(ours)).items) == 1
        await sets.delete_collection(Selection(namespace="default", labels="app=set"))
        await c.clock.advance(60)
        assert (await sets.list(ours)).items == []
        assert await c.pods() == []

    run_scenario(scenario)


def test_status() -> None:
    """[sig-apps] Daemon set should verify changes to a daemon set status [Conformance]"""

    async def scenario(c: Sets) -> None:
        await c.create(daemon_set())
        await check_status(c)
        await check_status_endpoints(c, DaemonSet)

    run_scenario(scenario)
