"""Conformance tests of sig-scheduling for limit ranges. The first paragraph of a docstring is the official test
name."""

import json
from typing import Any

from tests.e2e.conformance.scheduling.scheduling_cluster import SchedulingCluster
from tests.eventually import wait_until


def limit_range(name: str, least: dict[str, str], most: dict[str, str], **more: Any) -> dict[str, Any]:
    item = {
        "type": "Container",
        "min": least,
        "max": most,
        "default": {"cpu": "500m", "memory": "500Mi", "ephemeral-storage": "500Gi"},
        "defaultRequest": {"cpu": "100m", "memory": "200Mi", "ephemeral-storage": "200Gi"},
        "maxLimitRequestRatio": {},
    }
    metadata = {"name": name, "labels": more.pop("labels", {})}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": [item]}}


LEAST = {"cpu": "50m", "memory": "100Mi", "ephemeral-storage": "100Gi"}
MOST = {"cpu": "500m", "memory": "500Mi", "ephemeral-storage": "500Gi"}


def pod(name: str, requests: dict[str, str], limits: dict[str, str]) -> dict[str, Any]:
    container = {"name": "c", "image": "pause:3", "resources": {"requests": requests, "limits": limits}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}


def amounts(scheduling_cluster: SchedulingCluster, name: str) -> Any:
    return scheduling_cluster.pod(name)["spec"]["containers"][0]["resources"]


def test_defaults_are_applied_and_limits_enforced(scheduling_cluster: SchedulingCluster) -> None:
    """[sig-scheduling] LimitRange should create a LimitRange with defaults and ensure pod has those defaults applied.
    [Conformance]"""
    manifest = limit_range("limit-range", LEAST, MOST)
    scheduling_cluster.apply(manifest)
    item = scheduling_cluster.kubectl.json("get", "limitrange", "limit-range")["spec"]["limits"][0]
    assert (item["min"], item["max"]) == (LEAST, MOST)
    wait_until(lambda: bool(scheduling_cluster.kubectl("get", "limitrange", "limit-range", "-o", "name")))
    scheduling_cluster.apply(pod("pod-no-resources", {}, {}))
    assert amounts(scheduling_cluster, "pod-no-resources") == {
        "requests": {"cpu": "100m", "memory": "200Mi", "ephemeral-storage": "200Gi"},
        "limits": MOST,
    }
    scheduling_cluster.apply(pod("pod-partial-resources", {"cpu": "150m", "memory": "150Mi"}, {"cpu": "300m"}))
    assert amounts(scheduling_cluster, "pod-partial-resources") == {
        "requests": {"cpu": "150m", "memory": "150Mi", "ephemeral-storage": "200Gi"},
        "limits": {"cpu": "300m", "memory": "500Mi", "ephemeral-storage": "500Gi"},
    }
    refuses(
        scheduling_cluster, pod("few", {"cpu": "10m"}, {}), "minimum cpu usage per Container is 50m, but request is 10m"
    )
    refuses(
        scheduling_cluster,
        pod("many", {}, {"cpu": "600m"}),
        "maximum cpu usage per Container is 500m, but limit is 600m",
    )
    manifest["spec"]["limits"][0]["min"] = {"cpu": "9m", "memory": "49Mi", "ephemeral-storage": "49Gi"}
    scheduling_cluster.apply(manifest)
    scheduling_cluster.apply(pod("few", {"cpu": "10m", "memory": "50Mi", "ephemeral-storage": "50Gi"}, {}))
    refuses(
        scheduling_cluster,
        pod("many", {}, {"cpu": "600m"}),
        "maximum cpu usage per Container is 500m, but limit is 600m",
    )
    scheduling_cluster.kubectl("delete", "limitrange", "limit-range")
    scheduling_cluster.apply(pod("many", {"cpu": "600m"}, {"cpu": "600m"}))


def refuses(scheduling_cluster: SchedulingCluster, manifest: dict[str, Any], message: str) -> None:
    assert message in scheduling_cluster.kubectl.fails("apply", "-f", "-", stdin=json.dumps(manifest))


def test_list_patch_and_delete_collection(scheduling_cluster: SchedulingCluster) -> None:
    """[sig-scheduling] LimitRange should list, patch and delete a LimitRange by collection [Conformance]"""
    kubectl = scheduling_cluster.kubectl
    with scheduling_cluster.cluster.namespace("sched-other") as other:
        scheduling_cluster.apply(limit_range("first", LEAST, MOST, labels={"e2e": "both"}))
        second = limit_range("second", LEAST, MOST, labels={"e2e": "both"})
        kubectl("apply", "-n", other, "-f", "-", stdin=json.dumps(second))
        assert len(kubectl.json("get", "limitranges", "-A", "-l", "e2e=both")["items"]) == 2
        limits = [{"type": "Container", "min": {"cpu": "10m"}}]
        patch = {"metadata": {"labels": {"first": "patched"}}, "spec": {"limits": limits}}
        kubectl("patch", "limitrange", "first", "--type=merge", "-p", json.dumps(patch))
        stored = kubectl.json("get", "limitrange", "first")
        assert stored["metadata"]["labels"]["first"] == "patched"
        assert stored["spec"]["limits"][0]["min"] == {"cpu": "10m"}
        kubectl("delete", "limitranges", "-l", "first=patched")
        wait_until(lambda: not kubectl("get", "limitranges", "-o", "name"))
        assert kubectl("get", "limitranges", "-n", other, "-o", "name") == "limitrange/second\n"
