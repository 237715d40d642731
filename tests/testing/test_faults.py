"""Injected faults, as clients observe them."""

import time
from collections.abc import Iterator
from typing import Any

import kubernetes
import pytest

from sampan.api.types.core_v1 import ConfigMap
from sampan.apiserver.request.call import Call, Query, UserInfo
from sampan.machinery import errors
from sampan.machinery.client import Request, Selection, builtin
from sampan.testing import Cluster
from sampan.testing.builders import config_map, deployment
from sampan.testing.errors import UnsupportedByCluster
from sampan.testing.faults import FaultRule


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(level="nodes", clock="virtual") as cluster:
        yield cluster


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    with cluster.namespace() as name:
        yield name


@pytest.fixture
def core(cluster: Cluster) -> Iterator[Any]:
    """A client of the kubernetes package, over HTTPS."""
    configuration = kubernetes.client.Configuration()
    kubernetes.config.load_kube_config(str(cluster.kubeconfig), client_configuration=configuration)
    configuration.retries = False
    with kubernetes.client.ApiClient(configuration) as api:
        yield kubernetes.client.CoreV1Api(api)


def test_injected_fault_with_count_affects_that_many_requests(cluster: Cluster, namespace: str, core: Any) -> None:
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "map"}})
    with cluster.fault(error=409, verb="update,patch", resource="configmaps", namespace=namespace, count=2) as fault:
        for _ in range(2):
            with pytest.raises(kubernetes.client.ApiException) as raised:
                core.replace_namespaced_config_map("map", namespace, {"metadata": {"name": "map"}})
            assert raised.value.status == 409
            assert "the object has been modified" in raised.value.body
        core.replace_namespaced_config_map("map", namespace, {"metadata": {"name": "map"}})
    assert fault.hits == 2


def test_status_429_has_a_retry_after_header(cluster: Cluster, namespace: str, core: Any) -> None:
    with (
        cluster.fault(error=429, retry_after_s=7, resource="configmaps"),
        pytest.raises(kubernetes.client.ApiException) as raised,
    ):
        core.list_namespaced_config_map(namespace, _request_timeout=60)
    assert raised.value.status == 429
    assert raised.value.headers["Retry-After"] == "7"


@pytest.mark.parametrize(
    ("status", "error"),
    [(404, errors.NotFound), (500, errors.InternalError), (503, errors.ServiceUnavailable), (403, errors.Forbidden)],
)
def test_status_code_becomes_the_matching_error(
    cluster: Cluster, namespace: str, status: int, error: type[Exception]
) -> None:
    maps = cluster.client.for_kind(ConfigMap)
    with cluster.fault(error=status, verb="get", message="out of order"), pytest.raises(error):
        cluster.run(maps.get("any", namespace))


def test_status_409_on_create_becomes_already_exists(cluster: Cluster, namespace: str) -> None:
    with cluster.fault(error=409, verb="create"), pytest.raises(errors.AlreadyExists):
        cluster.run(cluster.client.for_kind(ConfigMap).create(config_map("new"), namespace))


def test_latency_delays_the_response(cluster: Cluster, namespace: str) -> None:
    with cluster.fault(latency_s=0.05, verb="list", resource="configmaps", count=1) as fault:
        began = time.monotonic()
        assert cluster.list("configmaps", namespace=namespace)
        assert time.monotonic() - began >= 0.05
    assert fault.hits == 1


def test_the_same_seed_affects_the_same_requests(cluster: Cluster, namespace: str) -> None:
    def outcomes(seed: int) -> list[bool]:
        with cluster.fault(error=500, verb="get", name="any", probability=0.5, seed=seed):
            return [_fails(cluster, namespace) for _ in range(20)]

    first = outcomes(7)
    assert first == outcomes(7)
    assert first != outcomes(8)
    assert {True, False} == set(first)


def _fails(cluster: Cluster, namespace: str) -> bool:
    try:
        cluster.run(cluster.client.for_kind(ConfigMap).get("any", namespace))
    except errors.InternalError:
        return True
    except errors.NotFound:
        return False
    raise AssertionError("the request was expected to fail with status 404 or 500")


def test_components_are_exempt_unless_a_rule_names_their_user(cluster: Cluster, namespace: str) -> None:
    with cluster.fault(error=500, resource="replicasets*", verb="create") as fault:
        cluster.apply(deployment("web"), namespace=namespace)
        cluster.advance(seconds=5)
        cluster.wait_for("deployment/web", "condition=Available", namespace=namespace)
        assert fault.hits == 0
    with cluster.fault(error=500, resource="replicasets.apps", verb="create", user="*deployment-controller") as fault:
        cluster.apply(deployment("second"), namespace=namespace)
        cluster.advance(seconds=5)
        assert fault.hits > 0
        assert len(cluster.list("replicasets", namespace=namespace)) == 1
    cluster.advance(minutes=5)
    cluster.wait_for("deployment/second", "condition=Available", namespace=namespace)


class TestWatches:
    def test_watch_drop_closes_an_open_watch(self, cluster: Cluster, namespace: str, core: Any) -> None:
        watch = core.list_namespaced_config_map(namespace, watch=True, _preload_content=False, _request_timeout=60)
        events = watch.stream()  # closes the connection when it is garbage-collected
        assert b"kube-root-ca.crt" in next(events)
        with cluster.fault(watch_drop=True, resource="configmaps", namespace=namespace) as fault:
            assert b"ERROR" not in b"".join(events)
        assert fault.hits == 1

    def test_expired_watch_drop_raises_expired(self, cluster: Cluster, namespace: str) -> None:
        selection = Selection(namespace=namespace)

        async def watch() -> None:
            async with cluster.client.for_kind(ConfigMap).watch(selection) as events:
                async for _ in events:
                    pass

        with (
            cluster.fault(watch_drop=True, is_expired=True, resource="configmaps", count=1),
            pytest.raises(errors.Expired),
        ):
            cluster.run(watch())

    def test_watches_of_other_resources_continue(self, cluster: Cluster, namespace: str) -> None:
        async def wait_for_first_name() -> str:
            async with cluster.client.for_kind(ConfigMap).watch(
                Selection(namespace=namespace), initial_events=True
            ) as events:
                with cluster.fault(watch_drop=True, resource="secrets"):
                    async for batch in events:
                        return str(batch[0].object.metadata.name)
            return ""

        assert cluster.run(wait_for_first_name()) == "kube-root-ca.crt"


def test_injected_faults_end_with_their_block(cluster: Cluster, namespace: str) -> None:
    with pytest.raises(KeyError), cluster.fault(error=500):
        raise KeyError
    assert cluster.list("configmaps", namespace=namespace)


def test_non_resource_urls_are_never_affected(cluster: Cluster) -> None:
    with cluster.fault(error=500):
        assert cluster.run(cluster.client.send(Request(method="GET", path="/readyz"))).body() == b"ok"


def test_node_down_makes_the_ready_condition_unknown(cluster: Cluster) -> None:
    def is_ready() -> str:
        conditions = cluster.get("node/node-0")["status"]["conditions"]
        return str(next(condition["status"] for condition in conditions if condition["type"] == "Ready"))

    with cluster.node_down("node-0"):
        cluster.advance(minutes=1)
        assert is_ready() == "Unknown"
    cluster.advance(seconds=30)
    assert is_ready() == "True"


def test_node_down_requires_a_hollow_node(cluster: Cluster) -> None:
    cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "elsewhere"}})
    with pytest.raises(UnsupportedByCluster, match="elsewhere is not hollow"), cluster.node_down("elsewhere"):
        pass
    cluster.delete("node/elsewhere")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "a fault needs an effect"),
        ({"error": 200}, "error: must be an HTTP status from 400 to 599"),
        ({"error": 500, "count": 0}, "count: must be at least 1"),
        ({"error": 500, "probability": 2.0}, "probability: must be between 0 and 1"),
        ({"error": 500, "verb": "creat"}, "verb: there is no 'creat': did you mean 'create'?"),
        (
            {"error": 500, "verb": "get, x*"},
            "verb: there is no 'x[*]': supported: create, delete, deletecollection",
        ),
        ({"error": 500, "resource": "podz"}, "resource: there is no 'podz': did you mean 'pods'?"),
        ({"error": 500, "resource": "deployment"}, "resource: there is no 'deployment': did you mean 'deployments'?"),
        ({"error": 500, "resource": "deploymentz.apps"}, "did you mean 'deployments.apps'?"),
        ({"watch_drop": True, "resource": "podz"}, "resource: there is no 'podz'"),
        ({"error": 500, "subresource": "statu"}, "subresource: there is no 'statu': did you mean 'status'?"),
        (
            {"error": 500, "resource": "configmaps", "subresource": "status"},
            "subresource: there is no 'status': supported: ",
        ),
    ],
)
def test_invalid_arguments_are_rejected(cluster: Cluster, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("?", "[?]")):
        cluster.fault(**arguments)


@pytest.mark.parametrize(
    "rule", [{"resource": "*s"}, {"resource": "widgets.example.com"}, {"resource": "*.apps"}, {"verb": "delete*"}]
)
def test_rules_with_wildcards_and_groups_that_are_not_served_are_accepted(
    cluster: Cluster, rule: dict[str, Any]
) -> None:
    with cluster.fault(error=500, name="none", **rule) as fault:
        assert fault.hits == 0


@pytest.mark.parametrize(
    ("user", "is_component"),
    [
        ("system:kube-scheduler", True),
        ("system:kube-controller-manager", True),
        ("system:node:node-0", True),
        ("system:serviceaccount:kube-system:deployment-controller", True),
        ("system:serviceaccount:default:operator", False),
        ("system:anonymous", False),
        ("system:unsecured", False),
        ("kubernetes-admin", False),
    ],
)
def test_rule_without_a_user_selects_all_requests_but_those_of_components(user: str, is_component: bool) -> None:
    calls = [_call(user, "list"), _call(user, "get", "web"), _call(user, "update", "web", "status")]
    for call in calls:
        assert FaultRule().selects(call) is not is_component
        assert FaultRule(user="*").selects(call)
        assert not FaultRule(user="somebody").selects(call)


def _call(user: str, verb: str, name: str = "", subresource: str = "") -> Call:
    return Call(
        method="",
        path="",
        query=Query(""),
        headers={},
        user=UserInfo(user),
        verb=verb,
        resource=builtin("pods"),
        namespace="default",
        name=name,
        subresource=subresource,
    )
