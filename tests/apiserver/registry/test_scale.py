"""The scale subresource of every kind that has one."""

from typing import Any

import pytest

from tests.apiserver.cluster import Cluster, run_in_cluster

LABELS = {"tier": "t", "app": "a"}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "nginx:1"}]}}
SELECTOR = {"matchLabels": LABELS, "matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}
KINDS = {
    "replicationcontrollers": ("/api/v1", None, "app=a,tier=t"),
    "replicasets": ("/apis/apps/v1", SELECTOR, "app=a,tier=t,!x"),
    "deployments": ("/apis/apps/v1", SELECTOR, "app=a,tier=t,!x"),
    "statefulsets": ("/apis/apps/v1", SELECTOR, "app=a,tier=t,!x"),
}
"""The path, the selector and the selector of the scale of each kind. A replication controller without a selector gets
the labels of its template."""
CONTROLLERS = pytest.mark.parametrize("plural", KINDS)


async def create_scalable(cluster: Cluster, plural: str) -> str:
    """Create an object of the kind with two replicas, and return its path."""
    group, selector, _ = KINDS[plural]
    collection = f"{group}/namespaces/ns/{plural}"
    spec = {"replicas": 2, "selector": selector, "template": TEMPLATE}
    await cluster.make(collection, {"metadata": {"name": "a", "labels": {"own": "l"}}, "spec": spec})
    return f"{collection}/a"


def scale(replicas: int, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a", **metadata}, "spec": {"replicas": replicas}}


@CONTROLLERS
def test_scale_reads_and_writes_replicas(plural: str) -> None:
    async def work(cluster: Cluster) -> None:
        path = await create_scalable(cluster, plural)
        shown = (await cluster.send("GET", f"{path}/scale")).json
        assert (shown["kind"], shown["apiVersion"]) == ("Scale", "autoscaling/v1")
        assert shown["spec"] == {"replicas": 2}
        assert shown["status"] == {"replicas": 0, "selector": KINDS[plural][2]}
        assert set(shown["metadata"]) == {"name", "namespace", "uid", "resourceVersion", "creationTimestamp"}
        changed = await cluster.send("PUT", f"{path}/scale", scale(5))
        assert changed.json["spec"] == {"replicas": 5}
        patched = await cluster.patch(f"{path}/scale", {"spec": {"replicas": 7}})
        assert patched.json["spec"] == {"replicas": 7}
        document = (await cluster.send("GET", path)).json
        assert (document["spec"]["replicas"], document["metadata"]["generation"]) == (7, 3)
        assert document["metadata"]["labels"] == {"own": "l"}

    run_in_cluster(work)


@CONTROLLERS
def test_invalid_scale_updates_are_rejected(plural: str) -> None:
    async def work(cluster: Cluster) -> None:
        path = await create_scalable(cluster, plural)
        group = KINDS[plural][0].removeprefix("/apis/").removeprefix("/api/").rpartition("/")[0]
        negative = await cluster.send("PUT", f"{path}/scale", scale(-1))
        assert (negative.code, negative.json["message"]) == (
            422,
            'Scale.autoscaling "a" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0',
        )
        negative_patch = await cluster.patch(f"{path}/scale", {"spec": {"replicas": -1}})
        assert (negative_patch.code, negative_patch.json) == (422, negative.json)
        assert (await cluster.send("PUT", f"{path}/scale", scale(2, labels={"-": ""}))).code == 200
        assert (await cluster.send("PUT", f"{path}/scale", scale(1, resourceVersion="1"))).code == 409
        resource = f"{plural}.{group}" if group else plural
        wrong_uid = await cluster.send("PUT", f"{path}/scale", scale(1, uid="other"))
        assert wrong_uid.code == 409
        assert wrong_uid.json["message"].startswith(
            f'Operation cannot be fulfilled on {resource} "a": StorageError: invalid object, Code: 4, Key: /registry/'
        )
        patched = await cluster.patch(f"{path}/scale", {"metadata": {"uid": "other"}})
        assert patched.code == 409
        start = f'Operation cannot be fulfilled on {plural}/scale{"." if group else ""}{group} "a"'
        assert patched.json["message"].startswith(f"{start}: Precondition failed: UID in precondition: other, UID in ")
        assert (await cluster.send("GET", path)).json["spec"]["replicas"] == 2

    run_in_cluster(work)


def test_a_dry_run_changes_nothing() -> None:
    async def work(cluster: Cluster) -> None:
        path = await create_scalable(cluster, "deployments")
        dry_run = await cluster.send("PUT", f"{path}/scale?dryRun=All", scale(9))
        assert dry_run.json["spec"] == {"replicas": 9}
        assert (await cluster.send("GET", f"{path}/scale")).json["spec"] == {"replicas": 2}

    run_in_cluster(work)


def test_daemon_set_has_no_scale() -> None:
    async def work(cluster: Cluster) -> None:
        spec = {"selector": SELECTOR, "template": TEMPLATE}
        await cluster.make("/apis/apps/v1/namespaces/ns/daemonsets", {"metadata": {"name": "a"}, "spec": spec})
        assert (await cluster.send("GET", "/apis/apps/v1/namespaces/ns/daemonsets/a/scale")).code == 404

    run_in_cluster(work)
