"""Requests to pods: creation, binding, deletion, eviction, subresources and tables."""

from typing import Any

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import Pod
from sampan.apiserver.registry.kinds.pods.columns import COLUMNS
from tests.apiserver.cluster import NAMESPACE, PODS, Cluster, run_in_cluster
from tests.apiserver.pods import CONTAINER, pod_value

BUDGETS = "/apis/policy/v1/namespaces/ns/poddisruptionbudgets"


def test_a_new_pod_is_pending_at_its_first_generation() -> None:
    async def work(cluster: Cluster) -> None:
        pod = await cluster.create_pod(spec={"schedulingGates": [{"name": "x.io/g"}]})
        assert pod["metadata"]["generation"] == 1
        (condition,) = pod["status"].pop("conditions")
        assert pod["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
        assert (condition["type"], condition["reason"]) == ("PodScheduled", "SchedulingGated")

    run_in_cluster(work)


def test_match_label_keys_are_merged_into_selectors_once() -> None:
    term = {"topologyKey": "z", "labelSelector": {}, "matchLabelKeys": ["a", "none"], "mismatchLabelKeys": ["b"]}

    async def work(cluster: Cluster) -> None:
        affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        pod = await cluster.create_pod(spec={"affinity": affinity}, labels={"a": "1", "b": "2"})
        (stored_term,) = pod["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        expected = [
            {"key": "a", "operator": "In", "values": ["1"]},
            {"key": "b", "operator": "NotIn", "values": ["2"]},
        ]
        assert stored_term["labelSelector"] == {"matchExpressions": expected}
        again = await cluster.send("PUT", f"{PODS}/a", pod)
        assert again.json == pod

    run_in_cluster(work)


def test_generation_counts_only_spec_changes() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create_pod()
        reply = await cluster.patch(f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}})
        assert reply.json["metadata"]["generation"] == 1
        reply = await cluster.patch(f"{PODS}/a", {"spec": {"activeDeadlineSeconds": 9}})
        assert reply.json["metadata"]["generation"] == 2

    run_in_cluster(work)


def test_status_update_keeps_claim_statuses_that_it_leaves_out() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create_pod(spec={"resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}]})
        statuses = [{"name": "c", "resourceClaimName": "a-c"}]
        pod = (await cluster.patch(f"{PODS}/a/status", {"status": {"resourceClaimStatuses": statuses}})).json
        del pod["status"]["resourceClaimStatuses"], pod["metadata"]["resourceVersion"]
        pod = (await cluster.send("PUT", f"{PODS}/a/status", pod)).json
        assert pod["status"]["resourceClaimStatuses"] == statuses

    run_in_cluster(work)


def test_update_keeps_pod_level_resources_that_it_leaves_out() -> None:
    async def work(cluster: Cluster) -> None:
        pod = await cluster.create_pod(spec={"resources": {"limits": {"cpu": "1"}}})
        resources = pod["spec"].pop("resources")
        assert resources == {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}
        reply = await cluster.send("PUT", f"{PODS}/a", pod)
        assert (reply.code, reply.json["spec"]["resources"]) == (200, resources)

    run_in_cluster(work)


def test_status_is_written_only_by_status_subresource() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create_pod()
        change = {"status": {"phase": "Running"}, "spec": {"nodeName": "n"}, "metadata": {"labels": {"x": "y"}}}
        pod = (await cluster.patch(f"{PODS}/a/status", change)).json
        assert pod["status"]["phase"] == "Running"
        assert "nodeName" not in pod["spec"]
        assert pod["metadata"]["labels"] == {"x": "y"}
        pod = (await cluster.patch(f"{PODS}/a", {"status": {"phase": "Failed"}})).json
        assert pod["status"]["phase"] == "Running"

    run_in_cluster(work)


def test_ephemeralcontainers_and_resize_subresources_write_only_their_fields() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create_pod(spec={"containers": [{**CONTAINER, "resources": {"requests": {"cpu": "1"}}}]})
        added = {"spec": {"ephemeralContainers": [{"name": "e", "image": "x"}], "nodeName": "n"}}
        pod = (await cluster.patch(f"{PODS}/a/ephemeralcontainers", added)).json
        assert pod["spec"]["ephemeralContainers"][0]["imagePullPolicy"] == "Always"
        assert "nodeName" not in pod["spec"]
        resized = {"spec": {"containers": [{**CONTAINER, "image": "no", "resources": {"requests": {"cpu": "2"}}}]}}
        pod = (await cluster.patch(f"{PODS}/a/resize", resized)).json
        assert pod["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "2"}}
        assert pod["spec"]["containers"][0]["image"] == "nginx:1"
        assert pod["metadata"]["generation"] == 3

    run_in_cluster(work)


# -- binding ---------------------------------------------------------------------------------------------------------


def binding(**fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}, **fields}


@pytest.mark.parametrize("path", [f"{PODS}/a/binding", f"{NAMESPACE}/bindings"])
def test_binding_sets_node_name_and_merges_metadata(path: str) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create_pod(labels={"a": "b"})
        meta = {"name": "a", "annotations": {"c": "d"}, "labels": {"e": "f"}}
        binding_status = await cluster.make(path, binding(metadata=meta))
        assert (binding_status["status"], binding_status["code"]) == ("Success", 201)
        pod = (await cluster.send("GET", f"{PODS}/a")).json
        assert pod["spec"]["nodeName"] == "n"
        assert pod["metadata"]["labels"] == {"a": "b", "e": "f"}
        assert pod["metadata"]["annotations"] == {"c": "d"}
        assert pod["metadata"]["generation"] == 1
        assert [(c["type"], c["status"]) for c in pod["status"]["conditions"]] == [("PodScheduled", "True")]
        again = await cluster.send("POST", path, binding())
        assert again.code == 409
        assert again.json["message"].endswith('pods/binding "a": pod a is already assigned to node "n"')

    run_in_cluster(work)


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        (binding(target={}), 500, "target.name: Required value"),
        (binding(target={"name": "N"}), 500, 'target.name: Invalid value: "N": a lowercase RFC 1123 subdomain must'),
        (binding(metadata={"name": "b"}), 400, "name in URL does not match name in Binding object"),
        (binding(metadata={"name": "a", "uid": "other"}), 409, "UID in precondition: other"),
        (binding(metadata={"name": "a", "resourceVersion": "1"}), 409, "ResourceVersion in precondition: 1"),
    ],
)
def test_invalid_bindings_are_rejected(body: dict[str, Any], code: int, text: str) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create_pod()
        reply = await cluster.send("POST", f"{PODS}/a/binding", body)
        assert reply.code == code
        assert text in reply.json["message"]
        assert "nodeName" not in (await cluster.send("GET", f"{PODS}/a")).json["spec"]

    run_in_cluster(work)


# -- deletion --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "phase", "query", "grace_s"),
    [
        ({"nodeName": "n"}, "Running", "", 30),
        ({"nodeName": "n", "terminationGracePeriodSeconds": 5}, "Running", "", 5),
        ({"nodeName": "n"}, "Running", "?gracePeriodSeconds=-3", 1),
        ({"nodeName": "n"}, "Running", "?gracePeriodSeconds=0", None),
        ({"nodeName": "n"}, "Succeeded", "", None),
        ({}, "Pending", "", None),
    ],
)
def test_grace_period_of_pod_deletion(spec: dict[str, Any], phase: str, query: str, grace_s: int | None) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create_pod(spec=spec)
        await cluster.patch(f"{PODS}/a/status", {"status": {"phase": phase}})
        reply = await cluster.send("DELETE", f"{PODS}/a{query}")
        assert reply.json["metadata"]["deletionGracePeriodSeconds"] == (grace_s or 0)
        remaining = await cluster.send("GET", f"{PODS}/a")
        assert remaining.code == (404 if grace_s is None else 200)

    run_in_cluster(work)


# -- eviction --------------------------------------------------------------------------------------------------------


def eviction(**options: Any) -> dict[str, Any]:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}, "deleteOptions": options}


async def create_running_pod(cluster: Cluster, *, ready: bool = True) -> None:
    await cluster.create_pod(spec={"nodeName": "n"}, labels={"app": "x"})
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    await cluster.patch(f"{PODS}/a/status", {"status": {"phase": "Running", "conditions": conditions}})


async def create_budget(cluster: Cluster, name: str = "b", policy: str | None = None, **status: Any) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}, "unhealthyPodEvictionPolicy": policy}
    created = await cluster.make(BUDGETS, {"metadata": {"name": name}, "spec": spec})
    desired_status = {"observedGeneration": created["metadata"].get("generation", 0), **status}
    reply = await cluster.patch(f"{BUDGETS}/{name}/status", {"status": desired_status})
    assert reply.code == 200, reply.body


async def evict(cluster: Cluster, **options: Any) -> Any:
    return (await cluster.send("POST", f"{PODS}/a/eviction", eviction(**options))).json


def test_evicted_pod_has_disruption_target_condition() -> None:
    async def work(cluster: Cluster) -> None:
        await create_running_pod(cluster)
        assert (await evict(cluster, gracePeriodSeconds=7))["code"] == 201
        pod = (await cluster.send("GET", f"{PODS}/a")).json
        assert pod["metadata"]["deletionGracePeriodSeconds"] == 7
        condition = pod["status"]["conditions"][-1]
        assert (condition["type"], condition["reason"]) == ("DisruptionTarget", "EvictionByEvictionAPI")

    run_in_cluster(work)


def test_dry_run_eviction_changes_nothing() -> None:
    async def work(cluster: Cluster) -> None:
        await create_running_pod(cluster)
        await create_budget(cluster, disruptionsAllowed=1, currentHealthy=2, desiredHealthy=1)
        assert (await evict(cluster, dryRun=["All"]))["code"] == 201
        assert "deletionTimestamp" not in (await cluster.send("GET", f"{PODS}/a")).json["metadata"]
        assert (await cluster.send("GET", f"{BUDGETS}/b")).json["status"]["disruptionsAllowed"] == 1

    run_in_cluster(work)


def test_eviction_reduces_disruptions_allowed() -> None:
    async def work(cluster: Cluster) -> None:
        await create_running_pod(cluster)
        await create_budget(cluster, disruptionsAllowed=1, currentHealthy=2, desiredHealthy=1)
        assert (await evict(cluster))["code"] == 201
        status = (await cluster.send("GET", f"{BUDGETS}/b")).json["status"]
        assert status["disruptionsAllowed"] == 0
        assert list(status["disruptedPods"]) == ["a"]
        assert [(c["status"], c["reason"]) for c in status["conditions"]] == [("False", "InsufficientPods")]

    run_in_cluster(work)


def test_exhausted_disruption_budget_rejects_eviction_with_429() -> None:
    async def work(cluster: Cluster) -> None:
        await create_running_pod(cluster)
        await create_budget(cluster, disruptionsAllowed=0, currentHealthy=1, desiredHealthy=1)
        eviction = await evict(cluster)
        assert (eviction["code"], eviction["reason"]) == (429, "TooManyRequests")
        assert eviction["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
        text = "The disruption budget b needs 1 healthy pods and has 1 currently"
        assert eviction["details"]["causes"] == [{"reason": "DisruptionBudget", "message": text}]
        assert "deletionTimestamp" not in (await cluster.send("GET", f"{PODS}/a")).json["metadata"]

    run_in_cluster(work)


@pytest.mark.parametrize(
    ("policy", "status", "code"),
    [
        ("AlwaysAllow", {"currentHealthy": 0, "desiredHealthy": 1}, 201),
        (None, {"currentHealthy": 1, "desiredHealthy": 1}, 201),
        (None, {"currentHealthy": 0, "desiredHealthy": 1}, 429),
    ],
)
def test_unhealthy_pod_eviction_policy_applies_to_unready_pods(
    policy: str | None, status: dict[str, Any], code: int
) -> None:
    async def work(cluster: Cluster) -> None:
        await create_running_pod(cluster, ready=False)
        await create_budget(cluster, policy=policy, disruptionsAllowed=0, **status)
        assert (await evict(cluster))["code"] == code

    run_in_cluster(work)


def test_eviction_of_pod_with_two_disruption_budgets_gets_500() -> None:
    async def work(cluster: Cluster) -> None:
        await create_running_pod(cluster)
        await create_budget(cluster, "b")
        await create_budget(cluster, "c")
        eviction = await evict(cluster)
        assert eviction["code"] == 500
        assert eviction["message"].startswith("This pod has more than one PodDisruptionBudget")

    run_in_cluster(work)


def test_eviction_of_pending_pod_ignores_budget_but_checks_uid() -> None:
    async def work(cluster: Cluster) -> None:
        pod = await cluster.create_pod(labels={"app": "x"})
        await create_budget(cluster)
        eviction = await evict(cluster, preconditions={"uid": "other"})
        assert eviction["code"] == 409
        assert "the UID in the precondition (other) does not match" in eviction["message"]
        assert (await evict(cluster, preconditions={"uid": pod["metadata"]["uid"]}))["code"] == 201
        assert (await cluster.send("GET", f"{PODS}/a")).code == 404

    run_in_cluster(work)


# -- connections to the node -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "code", "text"),
    [
        ("a/log", 204, ""),
        ("a/log?container=x", 400, "container x is not valid for pod a"),
        ("a/log?tailLines=-1", 422, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ("a/log?sinceTime=soon", 400, 'parsing time "soon"'),
        ("two/log", 400, "a container name must be specified for pod two, choose one of: [c d]"),
        ("bound/log", 404, 'pods "gone" not found'),
        ("a/exec?command=ls", 400, "pod a does not have a host assigned"),
        ("a/portforward", 400, "pod a does not have a host assigned"),
        ("two/attach", 400, "a container name must be specified for pod two, choose one of: [c d]"),
        ("a/proxy/x", 400, "address not allowed"),
        ("b:c:d:e/proxy", 400, 'invalid pod request "b:c:d:e"'),
    ],
)
def test_errors_of_log_exec_attach_portforward_and_proxy(path: str, code: int, text: str) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create_pod("a")
        await cluster.create_pod("two", {"containers": [CONTAINER, {"name": "d", "image": "x"}]})
        await cluster.create_pod("bound", {"nodeName": "gone"})
        reply = await cluster.send("GET", f"{PODS}/{path}")
        assert reply.code == code
        assert text in (reply.json["message"] if reply.body else "")

    run_in_cluster(work)


# -- tables ----------------------------------------------------------------------------------------------------------

NOW = 1_767_225_600.0


def row(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **metadata: Any) -> list[Any]:
    value = pod_value(spec, creationTimestamp="2025-12-31T23:59:00Z", **metadata)
    pod = codec.from_value({**value, "status": status or {"phase": "Pending"}}, Pod)
    return [column.value(pod, NOW) for column in COLUMNS]


def container_status(name: str = "c", *, restarts: int = 0, ready: bool = False, **state: Any) -> dict[str, Any]:
    return {"name": name, "ready": ready, "restartCount": restarts, "state": state}


INIT = {"initContainers": [{"name": "i", "image": "x"}, {"name": "j", "image": "x"}]}
SIDECAR = {"initContainers": [{"name": "s", "image": "x", "restartPolicy": "Always"}]}


def test_table_cells() -> None:
    status = {
        "phase": "Running",
        "podIPs": [{"ip": "10.0.0.1"}],
        "conditions": [{"type": "x.io/g", "status": "True"}],
        "containerStatuses": [container_status(ready=True, running={})],
    }
    spec = {"nodeName": "n", "readinessGates": [{"conditionType": "x.io/g"}, {"conditionType": "x.io/h"}]}
    assert row(spec, status) == ["a", "1/1", "Running", "0", "60s", "10.0.0.1", "n", "<none>", "1/2"]
    assert row() == ["a", "0/1", "Pending", "0", "60s", "<none>", "<none>", "<none>", "<none>"]


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        ({}, {"phase": "Failed", "reason": "Evicted"}, ("0/1", "Evicted", "0")),
        (
            {},
            {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]},
            ("0/1", "SchedulingGated", "0"),
        ),
        (
            {},
            {
                "phase": "Running",
                "containerStatuses": [container_status(restarts=2, waiting={"reason": "CrashLoopBackOff"})],
            },
            ("0/1", "CrashLoopBackOff", "2"),
        ),
        (
            INIT,
            {"phase": "Pending", "initContainerStatuses": [container_status("i", terminated={"exitCode": 0})]},
            ("0/1", "Pending", "0"),
        ),
        (
            INIT,
            {
                "phase": "Pending",
                "initContainerStatuses": [
                    container_status("i", terminated={"exitCode": 0}),
                    container_status("j", running={}),
                ],
            },
            ("0/1", "Init:1/2", "0"),
        ),
        (
            INIT,
            {
                "phase": "Pending",
                "initContainerStatuses": [container_status("i", restarts=3, terminated={"exitCode": 4})],
            },
            ("0/1", "Init:ExitCode:4", "3"),
        ),
        (
            SIDECAR,
            {
                "phase": "Running",
                "initContainerStatuses": [{**container_status("s", ready=True, running={}), "started": True}],
                "containerStatuses": [container_status(ready=True, running={})],
            },
            ("2/2", "Running", "0"),
        ),
        (
            {},
            {
                "phase": "Running",
                "containerStatuses": [
                    container_status(terminated={"exitCode": 0, "reason": "Completed"}),
                    container_status("d", ready=True, running={}),
                ],
            },
            ("1/1", "NotReady", "0"),
        ),
        (
            {},
            {
                "phase": "Running",
                "containerStatuses": [
                    {
                        **container_status(restarts=1, ready=True, running={}),
                        "lastState": {"terminated": {"exitCode": 1, "finishedAt": "2025-12-31T23:58:20Z"}},
                    }
                ],
            },
            ("1/1", "Running", "1 (100s ago)"),
        ),
    ],
)
def test_table_shows_ready_containers_status_and_restarts(
    spec: dict[str, Any], status: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    assert tuple(row(spec, status)[1:4]) == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"phase": "Running"}, "Terminating"),
        ({"phase": "Running", "reason": "NodeLost"}, "Unknown"),
        ({"phase": "Succeeded"}, "Succeeded"),
    ],
)
def test_table_status_of_terminating_pod(status: dict[str, Any], expected: str) -> None:
    assert row({}, status, deletionTimestamp="2025-12-31T23:59:00Z")[2] == expected


@pytest.mark.parametrize(
    ("phase", "text"),
    [("Failed", "The pod failed."), ("Succeeded", "The pod has completed successfully."), ("Running", "")],
)
def test_table_rows_of_finished_pods_have_a_condition(phase: str, text: str) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create_pod()
        await cluster.patch(f"{PODS}/a/status", {"status": {"phase": phase}})
        accept = "application/json;as=Table;g=meta.k8s.io;v=v1"
        (row,) = (await cluster.client.get(PODS, accept=accept)).json["rows"]
        assert [condition["message"] for condition in row.get("conditions", [])] == ([text] if text else [])

    run_in_cluster(work)
