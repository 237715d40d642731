"""Conformance tests of sig-scheduling for preemption. The first paragraph of a docstring is the official test name."""

import json
from functools import partial
from typing import Any

from tests.e2e.conformance.scheduling.scheduling_cluster import CPUS, NODES, SchedulingCluster, pod, pod_spec
from tests.eventually import wait_until

MOST = CPUS * 0.7


def fill(scheduling_cluster: SchedulingCluster) -> list[str]:
    """Run a pod of low priority on the first node and a pod of medium priority on the second, each with most of the
    CPUs."""
    scheduling_cluster.apply(pod("low", cpus=MOST, priority="p-low", nodeSelector={"kubernetes.io/hostname": NODES[0]}))
    scheduling_cluster.apply(
        pod("medium", cpus=MOST, priority="p-medium", nodeSelector={"kubernetes.io/hostname": NODES[1]})
    )
    scheduling_cluster.wait_until_ready("low", "medium")
    return ["low", "medium"]


def test_basic_preemption(scheduling_cluster: SchedulingCluster) -> None:
    """[sig-scheduling] SchedulerPreemption validates basic preemption works [Conformance]"""
    with scheduling_cluster.priority_classes(**{"p-low": 1, "p-medium": 100, "p-high": 1000}):
        fill(scheduling_cluster)
        scheduling_cluster.apply(pod("preemptor", cpus=MOST, priority="p-high"))
        scheduling_cluster.wait_until_ready("preemptor")
        assert scheduling_cluster.node_of("preemptor") == NODES[0]
        assert not scheduling_cluster.has_pod("low")
        assert scheduling_cluster.has_pod("medium")
        (output,) = scheduling_cluster.events_of("low", "Preempted")
        assert output.startswith("Preempted by pod ")
        assert output.endswith(f" on node {NODES[0]}")


def test_preemption_by_a_critical_pod(scheduling_cluster: SchedulingCluster) -> None:
    """[sig-scheduling] SchedulerPreemption validates lower priority pod preemption by critical pod
    [Conformance]"""
    with scheduling_cluster.priority_classes(**{"p-low": 1, "p-medium": 100}):
        fill(scheduling_cluster)
        critical = pod("critical", cpus=MOST, priority="system-cluster-critical")
        scheduling_cluster.kubectl("apply", "-n", "kube-system", "-f", "-", stdin=json.dumps(critical))
        try:
            scheduling_cluster.kubectl(
                "wait", "-n", "kube-system", "--for=condition=Ready", "--timeout=60s", "pod/critical"
            )
            assert not scheduling_cluster.has_pod("low")
            assert scheduling_cluster.has_pod("medium")
        finally:
            scheduling_cluster.kubectl("delete", "pod", "critical", "-n", "kube-system", "--force", "--grace-period=0")


def test_preempted_pod_has_disruption_target_condition(scheduling_cluster: SchedulingCluster) -> None:
    """[sig-scheduling] SchedulerPreemption validates pod disruption condition is added to the preempted pod
    [Conformance]"""
    here = {"kubernetes.io/hostname": NODES[0]}
    with scheduling_cluster.priority_classes(**{"p-low": 1, "p-high": 1000}):
        victim = pod(
            "victim", cpus=MOST, priority="p-low", nodeSelector=here, finalizers=["example.com/test-finalizer"]
        )
        scheduling_cluster.apply(victim)
        scheduling_cluster.wait_until_ready("victim")
        scheduling_cluster.apply(pod("preemptor", cpus=MOST, priority="p-high", nodeSelector=here))
        wait_until(lambda: "deletionTimestamp" in scheduling_cluster.pod("victim")["metadata"])
        conditions = scheduling_cluster.pod("victim")["status"]["conditions"]
        (condition,) = [condition for condition in conditions if condition["type"] == "DisruptionTarget"]
        assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
        assert condition["message"] == "default-scheduler: preempting to accommodate a higher priority pod"
        scheduling_cluster.kubectl("patch", "pod", "victim", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        scheduling_cluster.wait_until_ready("preemptor")


def test_preemption_among_replica_sets(scheduling_cluster: SchedulingCluster) -> None:
    """[sig-scheduling] SchedulerPreemption PreemptionExecutionPath runs ReplicaSets to verify preemption running path
    [Conformance]"""
    share, here = CPUS / 10, {"kubernetes.io/hostname": NODES[0]}
    with scheduling_cluster.priority_classes(p1=1, p2=2, p3=3, p4=4):
        for name, replicas, requested in (("rs-pod1", 1, 2), ("rs-pod2", 2, 2), ("rs-pod3", 1, 3)):
            scheduling_cluster.apply(replica_set(name, replicas, share * requested, f"p{name[-1]}", here))
            wait_until(partial(is_ready, scheduling_cluster, name, replicas))
        scheduling_cluster.apply(replica_set("rs-pod4", 1, share * 4, "p4", here))
        wait_until(lambda: ready(scheduling_cluster, "rs-pod4") == 1)
        wait_until(lambda: [ready(scheduling_cluster, f"rs-pod{number}") for number in (1, 2, 3)] == [0, 1, 1])
        victims = scheduling_cluster.kubectl.json("get", "events", "--field-selector", "reason=Preempted")["items"]
        assert {event["involvedObject"]["name"][:7] for event in victims} <= {"rs-pod1", "rs-pod2"}


def replica_set(name: str, replicas: int, cpus: float, priority: str, here: dict[str, str]) -> dict[str, Any]:
    labels = {"name": name}
    template = {"metadata": {"labels": labels}, "spec": pod_spec(cpus=cpus, priority=priority, nodeSelector=here)}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def is_ready(scheduling_cluster: SchedulingCluster, name: str, replicas: int) -> bool:
    return ready(scheduling_cluster, name) == replicas


def ready(scheduling_cluster: SchedulingCluster, name: str) -> int:
    return int(scheduling_cluster.kubectl.json("get", "replicaset", name)["status"].get("readyReplicas", 0))


def test_priority_class_api(scheduling_cluster: SchedulingCluster) -> None:
    """[sig-scheduling] SchedulerPreemption PriorityClass endpoints verify PriorityClass endpoints can be operated with
    different HTTP methods [Conformance]"""
    kubectl = scheduling_cluster.kubectl
    with scheduling_cluster.priority_classes(p1=1, p2=2):
        listed = {obj["metadata"]["name"]: obj["value"] for obj in kubectl.json("get", "priorityclasses")["items"]}
        assert (listed["p1"], listed["p2"]) == (1, 2)
        for name in ("p1", "p2"):
            kubectl("patch", "priorityclass", name, "--type=merge", "-p", '{"description":"patched"}')
            priority_class = kubectl.json("get", "priorityclass", name)
            assert priority_class["description"] == "patched"
            kubectl("replace", "-f", "-", stdin=json.dumps(priority_class | {"description": "updated"}))
            assert kubectl.json("get", "priorityclass", name)["description"] == "updated"
            error = kubectl.fails("patch", "priorityclass", name, "--type=merge", "-p", '{"value":20}')
            assert "may not be changed in an update" in error
            assert kubectl.json("get", "priorityclass", name)["value"] == listed[name]
