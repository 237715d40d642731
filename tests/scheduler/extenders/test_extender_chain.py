"""Extenders over HTTP: their requests, and the effect of their responses on decisions."""

import asyncio
import base64
import ssl
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from sampan.api.types.core_v1 import Node, Pod, ResourceRequirements
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.scheduling_v1 import PriorityClass
from sampan.machinery.config_file import ConfigFileError
from sampan.machinery.pki import certificates
from sampan.scheduler.config import SchedulerConfig
from sampan.scheduler.config.config_file import API_VERSION, KIND, parse_config
from sampan.scheduler.explain.explain import explain
from tests.scheduler.extenders.fake_extender import FakeExtender, running_extender
from tests.scheduler.running_scheduler import RunningScheduler, running_scheduler

GPU = "example.com/gpu"
Scenario = Callable[[RunningScheduler, FakeExtender], Awaitable[None]]


def config(extender: dict[str, Any]) -> SchedulerConfig:
    return parse_config({"apiVersion": API_VERSION, "kind": KIND, "extenders": [extender]})


def run_scenario(scenario: Scenario, extender: dict[str, Any], **responses: Any) -> None:
    async def main() -> None:
        async with (
            running_extender(**responses) as server,
            running_scheduler(config({"urlPrefix": server.url, **extender})) as cluster,
        ):
            for name in ("a", "b", "c"):
                await cluster.node(name)
            await scenario(cluster, server)

    asyncio.run(main())


def accept_nodes(*names: str) -> Any:
    """A filter verb that accepts these nodes."""

    def respond(body: dict[str, Any]) -> Any:
        items = body["Nodes"]["items"]
        kept = [item for item in items if item["metadata"]["name"] in names]
        failed = {item["metadata"]["name"]: "not today" for item in items if item not in kept}
        return {"Nodes": {"items": kept}, "FailedNodes": failed}

    return respond


def test_extender_filters_nodes() -> None:
    async def scenario(cluster: RunningScheduler, server: FakeExtender) -> None:
        await cluster.create(cluster.pod("p"))
        assert await cluster.find_nodes("p") == ["b"]
        (body,) = server.bodies("filter")
        assert body["Pod"]["metadata"]["name"] == "p"
        assert [item["metadata"]["name"] for item in body["Nodes"]["items"]] == ["a", "b", "c"]
        assert body["NodeNames"] is None

    run_scenario(scenario, {"filterVerb": "filter"}, filter=accept_nodes("b"))


def test_node_cache_capable_extender_gets_only_node_names() -> None:
    async def scenario(cluster: RunningScheduler, server: FakeExtender) -> None:
        await cluster.create(cluster.pod("p"))
        assert await cluster.find_nodes("p") == ["c"]
        (body,) = server.bodies("filter")
        assert (body["Nodes"], body["NodeNames"]) == (None, ["a", "b", "c"])

    run_scenario(scenario, {"filterVerb": "filter", "nodeCacheCapable": True}, filter=lambda body: {"nodenames": ["c"]})


def test_failure_reasons_of_the_extender_are_in_the_event() -> None:
    async def scenario(cluster: RunningScheduler, server: FakeExtender) -> None:
        await cluster.create(cluster.pod("p"))
        assert await cluster.find_nodes("p") == [""]
        (event,) = await cluster.events("FailedScheduling")
        assert event.note.startswith("0/3 nodes are available: 1 never, 2 not today.")

    def respond(body: dict[str, Any]) -> Any:
        failed = {"a": "not today", "b": "not today"}
        return {"NodeNames": [], "FailedNodes": failed, "FailedAndUnresolvableNodes": {"c": "never"}}

    run_scenario(scenario, {"filterVerb": "filter", "nodeCacheCapable": True}, filter=respond)


def test_extender_scores_are_added_with_their_weight() -> None:
    async def scenario(cluster: RunningScheduler, server: FakeExtender) -> None:
        for name in ("p", "q", "r"):
            await cluster.create(cluster.pod(name))
        assert await cluster.find_nodes("p", "q", "r") == ["b", "b", "b"]

    def scores(body: dict[str, Any]) -> Any:
        return [{"Host": name, "Score": 10 if name == "b" else 0} for name in body["NodeNames"]]

    run_scenario(scenario, {"prioritizeVerb": "score", "weight": 5, "nodeCacheCapable": True}, score=scores)


def test_failing_extender_fails_the_attempt_unless_ignorable() -> None:
    async def check_failure(cluster: RunningScheduler, server: FakeExtender) -> None:
        await cluster.create(cluster.pod("p"))
        assert await cluster.find_nodes("p") == [""]
        condition = await cluster.condition("p")
        assert condition.reason == "SchedulerError"
        assert condition.message == f"failed filter with extender at URL {server.url}/filter, code 500"

    async def check_ignored_failure(cluster: RunningScheduler, server: FakeExtender) -> None:
        await cluster.create(cluster.pod("p"))
        assert await cluster.find_nodes("p") != [""]
        assert server.bodies("filter")

    run_scenario(check_failure, {"filterVerb": "filter"}, filter=lambda body: 500)
    run_scenario(check_ignored_failure, {"filterVerb": "filter", "ignorable": True}, filter=lambda body: 500)


def test_error_in_the_response_fails_the_attempt() -> None:
    async def scenario(cluster: RunningScheduler, server: FakeExtender) -> None:
        await cluster.create(cluster.pod("p"))
        await cluster.settle()
        assert (await cluster.condition("p")).message == "out of coffee"

    run_scenario(scenario, {"filterVerb": "filter"}, filter=lambda body: {"Error": "out of coffee"})


def test_only_pods_with_managed_resources_reach_the_extender() -> None:
    async def scenario(cluster: RunningScheduler, server: FakeExtender) -> None:
        await cluster.create(cluster.pod("plain"))
        assert await cluster.find_nodes("plain") != [""]
        assert server.calls == []
        gpu_pod = cluster.pod("gpu")
        assert gpu_pod.spec.containers
        gpu_pod.spec.containers[0].resources = ResourceRequirements(requests={GPU: "1"}, limits={GPU: "1"})
        await cluster.create(gpu_pod)
        assert await cluster.find_nodes("gpu") == ["a"]  # although no node is known to have any

    resources = [{"name": GPU, "ignoredByScheduler": True}]
    run_scenario(scenario, {"filterVerb": "filter", "managedResources": resources}, filter=accept_nodes("a"))


def test_new_node_requeues_a_pod_with_a_managed_resource() -> None:
    async def scenario(cluster: RunningScheduler, server: FakeExtender) -> None:
        pod = cluster.pod("p")
        assert pod.spec.containers
        amounts = {"cpu": "5", GPU: "1"}
        pod.spec.containers[0].resources = ResourceRequirements(requests=amounts, limits={GPU: "1"})
        await cluster.create(pod)
        assert await cluster.find_nodes("p") == [""]
        await cluster.node("large", cpu="8")
        await cluster.cluster.clock.advance(20)
        assert await cluster.find_nodes("p") == ["large"]

    managed = [{"name": GPU, "ignoredByScheduler": True}]
    run_scenario(scenario, {"filterVerb": "filter", "managedResources": managed}, filter=accept_nodes("large"))


def test_extender_binds_pods() -> None:
    async def scenario(cluster: RunningScheduler, server: FakeExtender) -> None:
        pod = await cluster.create(cluster.pod("p"))
        await cluster.settle()
        (body,) = server.bodies("bind")
        node = body.pop("Node")
        assert node in ("a", "b", "c")
        assert body == {"PodName": "p", "PodNamespace": "default", "PodUID": pod.metadata.uid}
        (event,) = await cluster.events("Scheduled")
        assert event.note == f"Successfully assigned default/p to {node}"

    run_scenario(scenario, {"bindVerb": "bind"}, bind=lambda body: {})


def test_failed_binding_of_the_extender_releases_the_node() -> None:
    async def scenario(cluster: RunningScheduler, server: FakeExtender) -> None:
        await cluster.create(cluster.pod("p"))
        await cluster.settle()
        assert "no such luck" in (await cluster.condition("p")).message
        assert all(not pods for pods in cluster.scheduler.table.pods)

    run_scenario(scenario, {"bindVerb": "bind"}, bind=lambda body: {"Error": "no such luck"})


def test_extender_chooses_among_preemption_candidates() -> None:
    async def scenario(cluster: RunningScheduler, server: FakeExtender) -> None:
        for number in range(3):
            await cluster.create(cluster.pod(f"low-{number}", cpu="4"))
        before = await cluster.find_nodes("low-0", "low-1", "low-2")
        assert sorted(before) == ["a", "b", "c"]
        high = PriorityClass(metadata=ObjectMeta(name="high"), value=10)
        await cluster.cluster.client.for_kind(PriorityClass).create(high)
        pod = cluster.pod("high", cpu="4")
        pod.spec.priorityClassName = "high"
        await cluster.create(pod)
        after = await cluster.find_nodes("low-0", "low-1", "low-2")
        assert [node for node, now in zip(before, after, strict=True) if now == "gone"] == ["c"]
        (body,) = server.bodies("preempt")
        assert set(body["NodeNameToMetaVictims"]) == {"a", "b", "c"}
        assert all(len(victims["Pods"]) == 1 for victims in body["NodeNameToMetaVictims"].values())

    def respond(body: dict[str, Any]) -> Any:
        return {"NodeNameToMetaVictims": {"c": body["NodeNameToMetaVictims"]["c"]}}

    run_scenario(scenario, {"preemptVerb": "preempt", "nodeCacheCapable": True}, preempt=respond)


def test_failing_preempt_verb_leaves_the_pod_unschedulable() -> None:
    async def scenario(cluster: RunningScheduler, server: FakeExtender) -> None:
        for number in range(3):
            await cluster.create(cluster.pod(f"low-{number}", cpu="4"))
        await cluster.settle()
        high = PriorityClass(metadata=ObjectMeta(name="high"), value=10)
        await cluster.cluster.client.for_kind(PriorityClass).create(high)
        pod = cluster.pod("high", cpu="4")
        pod.spec.priorityClassName = "high"
        await cluster.create(pod)
        assert await cluster.find_nodes("high") == [""]
        condition = await cluster.condition("high")
        assert (condition.reason, "Insufficient cpu" in condition.message) == ("Unschedulable", True)
        assert f"failed preempt with extender at URL {server.url}/preempt, code 500" in condition.message

    run_scenario(scenario, {"preemptVerb": "preempt", "nodeCacheCapable": True}, preempt=lambda body: 500)


def test_node_names_from_an_extender_without_node_cache_are_ignored() -> None:
    async def scenario(cluster: RunningScheduler, server: FakeExtender) -> None:
        await cluster.create(cluster.pod("p"))
        assert await cluster.find_nodes("p") == [""]
        assert (await cluster.condition("p")).reason == "Unschedulable"

    run_scenario(scenario, {"filterVerb": "filter"}, filter=lambda body: {"NodeNames": ["b"]})


def test_pod_rejected_by_the_extender_is_requeued_by_any_event() -> None:
    async def scenario(cluster: RunningScheduler, server: FakeExtender) -> None:
        await cluster.create(cluster.pod("p"))
        assert await cluster.find_nodes("p") == [""]
        server.responses["filter"] = accept_nodes("c")
        await cluster.cluster.clock.advance(20)
        assert await cluster.find_nodes("p") == [""]
        await cluster.node("d")
        await cluster.cluster.clock.advance(20)
        assert await cluster.find_nodes("p") == ["c"]

    run_scenario(scenario, {"filterVerb": "filter"}, filter=accept_nodes())


def test_extender_filters_the_nominated_node() -> None:
    async def scenario(cluster: RunningScheduler, server: FakeExtender) -> None:
        await cluster.create(cluster.pod("big", cpu="8"))
        await cluster.settle()
        pods = cluster.cluster.client.for_kind(Pod)
        await pods.patch("big", {"status": {"nominatedNodeName": "a"}}, "default", subresource="status")
        await cluster.node("b2", cpu="9")
        allocatable = {"cpu": "9", "memory": "8Gi", "pods": "10"}
        nodes = cluster.cluster.client.for_kind(Node)
        await nodes.patch("a", {"status": {"allocatable": allocatable, "capacity": allocatable}}, subresource="status")
        await cluster.cluster.clock.advance(20)
        assert await cluster.find_nodes("big") == ["b2"]
        candidates = [[item["metadata"]["name"] for item in body["Nodes"]["items"]] for body in server.bodies("filter")]
        assert ["a"] in candidates

    run_scenario(scenario, {"filterVerb": "filter"}, filter=accept_nodes("b2"))


def test_explanation_includes_extender_rejections_and_scores() -> None:
    async def scenario(cluster: RunningScheduler, server: FakeExtender) -> None:
        await cluster.settle()
        explanation = await explain(cluster.scheduler, cluster.pod("p"), now=0.0)
        by_name = {node.name: node for node in explanation.nodes}
        assert (explanation.feasible, explanation.best, explanation.notes) == (2, "c", [])
        (rejection,) = by_name["a"].refusals
        assert (rejection.plugin, rejection.reasons, rejection.isFinal) == (server.url, ["not today"], False)
        (score,) = [node for node in by_name["c"].scores if node.plugin == server.url]
        assert (score.score, score.weight) == (70, 5)
        assert by_name["c"].total == by_name["b"].total + 70 * 5
        server.responses["filter"] = lambda body: 500
        explanation = await explain(cluster.scheduler, cluster.pod("p"), now=0.0)
        assert explanation.feasible == 3
        assert explanation.notes == [
            f"extender {server.url} failed: failed filter with extender at URL {server.url}/filter, code 500"
        ]

    run_scenario(
        scenario,
        {"filterVerb": "filter", "prioritizeVerb": "rate", "weight": 5},
        filter=accept_nodes("b", "c"),
        rate=lambda body: [{"Host": "c", "Score": 7}],
    )


@pytest.mark.parametrize(
    ("extender", "message"),
    [
        ({"tlsConfig": {"insecure": True, "caData": "eA=="}}, "root certificates file with the insecure flag is not"),
        ({"tlsConfig": {"certData": "eA=="}}, "a client certificate and its key must be given together"),
        ({"tlsConfig": {"caFile": "/nowhere/ca.pem"}}, "No such file or directory"),
        ({"httpTimeout": "soon"}, "invalid duration"),
    ],
)
def test_invalid_extender_settings_are_rejected(extender: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigFileError, match=message):
        config({"urlPrefix": "https://127.0.0.1:1", **extender})


def test_zero_http_timeout_means_five_seconds() -> None:
    (extender,) = config({"urlPrefix": "http://127.0.0.1:1", "httpTimeout": "0s"}).extenders
    assert extender.timeout_s == 5


def test_tls_server_name_may_differ_from_the_address() -> None:
    now = time.time()
    ca = certificates.make_ca("ca", now=now)
    pair = certificates.issue(
        ca, certificates.SigningRequest(common_name="x", dns_names=("extender.example",), is_server=True), now=now
    )
    authority = base64.b64encode(ca.certificate).decode()

    async def schedule_pod(name: str, context: ssl.SSLContext) -> str:
        tls = {"caData": authority, "serverName": name}
        async with (
            running_extender(context, filter=accept_nodes("b")) as server,
            running_scheduler(config({"urlPrefix": server.url, "filterVerb": "filter", "tlsConfig": tls})) as cluster,
        ):
            for node in ("a", "b"):
                await cluster.node(node)
            await cluster.create(cluster.pod("p"))
            return (await cluster.find_nodes("p"))[0]

    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "both.pem"
        file.write_bytes(pair.certificate + pair.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
    assert asyncio.run(schedule_pod("extender.example", context)) == "b"
    assert asyncio.run(schedule_pod("", context)) == ""


def test_tls_certificate_is_verified_with_the_configured_ca(tmp_path: Path) -> None:
    """A certificate of another CA is an error; without a configured CA the certificate is not verified."""
    now = time.time()
    ca, other = (certificates.make_ca(name, now=now) for name in ("ca", "other"))
    request = certificates.SigningRequest(common_name="x", addresses=("127.0.0.1",), is_server=True)
    pair = certificates.issue(ca, request, now=now)
    file = tmp_path / "both.pem"
    file.write_bytes(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)

    async def schedule_pod(tls: dict[str, Any]) -> str:
        async with (
            running_extender(context, filter=accept_nodes("b")) as server,
            running_scheduler(config({"urlPrefix": server.url, "filterVerb": "filter", **tls})) as cluster,
        ):
            for name in ("a", "b"):
                await cluster.node(name)
            await cluster.create(cluster.pod("p"))
            return (await cluster.find_nodes("p"))[0]

    def tls_with_ca(authority: Any) -> dict[str, Any]:
        return {"enableHTTPS": True, "tlsConfig": {"caData": base64.b64encode(authority.certificate).decode()}}

    assert asyncio.run(schedule_pod(tls_with_ca(ca))) == "b"
    assert asyncio.run(schedule_pod(tls_with_ca(other))) == ""
    assert asyncio.run(schedule_pod({"enableHTTPS": True})) == "b"
