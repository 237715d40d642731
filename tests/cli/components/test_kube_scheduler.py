"""`sampan kube-scheduler`: the scheduler in a process of its own."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sampan.api.types.authentication_v1 import TokenRequest, TokenRequestSpec
from sampan.api.types.coordination_v1 import Lease, LeaseSpec
from sampan.api.types.core_v1 import ConfigMap, Node, Pod, ServiceAccount
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.rbac_v1 import ClusterRoleBinding, RoleRef, Subject
from sampan.api.values import times
from sampan.machinery.client import Client, DeleteParameters, PatchType, Selection
from sampan.testing import Cluster, builders
from tests.cli.command import Sampan, get
from tests.ports import free_port

NAME = "kube-scheduler"


@pytest.fixture(scope="module")
def api_server() -> Iterator[Cluster]:
    with Cluster(components=["apiserver", "controllers"], controllers=["serviceaccount-controller"]) as cluster:
        yield cluster


@pytest.fixture
def cluster(api_server: Cluster) -> Iterator[Cluster]:
    """The API server of all tests, without nodes, pods and leases of other tests."""
    yield api_server
    api_server.run(delete_objects(api_server.client))


async def delete_objects(client: Client) -> None:
    await client.for_kind(Pod).delete_collection(
        Selection(namespace="default"), options=DeleteParameters(grace_period_s=0)
    )
    await client.for_kind(Node).delete_collection()
    await client.for_kind(Lease).delete_collection(Selection(namespace="kube-system"))


async def make_node(cluster: Cluster, name: str) -> None:
    nodes = cluster.client.for_kind(Node)
    await nodes.create(builders.node(name))
    await nodes.patch(name, {"spec": {"taints": None}}, type=PatchType.MERGE)
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    await nodes.patch(name, {"status": {"allocatable": allocatable}}, subresource="status")


@pytest.fixture(scope="module")
def token(api_server: Cluster) -> str:
    """A token of a service account with the role cluster-admin."""
    return api_server.run(make_token(api_server))


async def make_token(cluster: Cluster) -> str:
    role = ObjectMeta(name="everything-for-default")
    subject = Subject(kind="ServiceAccount", name="default", namespace="default")
    admin = RoleRef(apiGroup="rbac.authorization.k8s.io", kind="ClusterRole", name="cluster-admin")
    await cluster.client.for_kind(ClusterRoleBinding).create(
        ClusterRoleBinding(metadata=role, subjects=[subject], roleRef=admin)
    )
    token_request = TokenRequest(spec=TokenRequestSpec(audiences=[]))
    token = await cluster.client.for_kind(ServiceAccount).create_subresource(
        "token", "default", token_request, "default"
    )
    return str(token.status.token)


async def wait_for_binding(cluster: Cluster, name: str) -> str:
    """Wait until the pod is bound, and return the name of its node."""
    chosen = Selection(namespace="default", fields=f"metadata.name={name}")
    async with cluster.client.for_kind(Pod).watch(chosen, initial_events=True) as events:
        async for batch in events:
            for event in batch:
                if event.key.name and event.object.spec.nodeName:
                    return str(event.object.spec.nodeName)
    return ""


def test_scheduler_binds_pods_of_an_api_server_in_another_process(sampan: Sampan, cluster: Cluster) -> None:
    cluster.run(make_node(cluster, "a"))
    cluster.run(cluster.client.for_kind(Pod).create(builders.pod("p", namespace="default")))
    with sampan.running_forked_server(NAME, "--kubeconfig", str(cluster.kubeconfig), "--secure-port", "0") as process:
        assert process.stdout.readline() == f"{NAME} has started\n"
        assert cluster.run(wait_for_binding(cluster, "p")) == "a"
        lease = cluster.run(cluster.client.for_kind(Lease).get(NAME, "kube-system"))
        assert lease.spec.holderIdentity


def test_config_file_profile_schedules_pods_of_its_scheduler_name(
    sampan: Sampan, cluster: Cluster, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: mine}]\n"
    )
    cluster.run(make_node(cluster, "a"))
    pod = builders.pod("p", namespace="default")
    pod.spec.schedulerName = "mine"
    cluster.run(cluster.client.for_kind(Pod).create(pod))
    words = ("--kubeconfig", str(cluster.kubeconfig), "--secure-port", "0", "--leader-elect=false")
    with sampan.running_forked_server(NAME, *words, "--config", str(config)):
        assert cluster.run(wait_for_binding(cluster, "p")) == "a"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: Pod\napiVersion: v1\n", "want KubeSchedulerConfiguration"),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
            "profiles: [{plugins: {filter: {enabled: [{name: Nothing}]}}}]\n",
            "there is no plugin 'Nothing'",
        ),
    ],
)
def test_invalid_configuration_file_is_rejected(sampan: Sampan, tmp_path: Path, text: str, message: str) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(text)
    done = sampan.run(NAME, "--config", str(config))
    assert done.returncode != 0
    assert "--config" in done.stderr
    assert message in done.stderr


def test_a_classic_policy_is_applied(sampan: Sampan, cluster: Cluster, tmp_path: Path) -> None:
    policy = tmp_path / "policy.json"
    predicate = {"name": "Chosen", "argument": {"labelsPresence": {"labels": ["chosen"], "presence": True}}}
    policy.write_text(json.dumps({"kind": "Policy", "apiVersion": "v1", "predicates": [predicate], "priorities": []}))
    for name in ("a", "b", "c"):
        cluster.run(make_node(cluster, name))
    cluster.run(cluster.client.for_kind(Node).patch("b", {"metadata": {"labels": {"chosen": ""}}}))
    cluster.run(cluster.client.for_kind(Pod).create(builders.pod("p", namespace="default")))
    words = ("--kubeconfig", str(cluster.kubeconfig), "--secure-port", "0", "--leader-elect=false")
    with sampan.running_forked_server(NAME, *words, "--policy-config-file", str(policy)):
        assert cluster.run(wait_for_binding(cluster, "p")) == "b"


def test_policy_configmap_is_applied(sampan: Sampan, cluster: Cluster) -> None:
    cluster.run(make_node(cluster, "a"))
    cluster.run(cluster.client.for_kind(Pod).create(builders.pod("p", namespace="default")))
    words = ("--kubeconfig", str(cluster.kubeconfig), "--secure-port", "0", "--leader-elect=false")
    error = sampan.expect_failure(NAME, *words, "--policy-configmap", "policy")
    assert error == 'Error: --policy-configmap: configmaps "policy" not found\n'
    data = {"policy.cfg": "predicates: [{name: PodFitsResources}]\n"}
    config_map = ConfigMap(metadata=ObjectMeta(name="policy", namespace="kube-system"), data=data)
    cluster.run(cluster.client.for_kind(ConfigMap).create(config_map))
    with sampan.running_forked_server(NAME, *words, "--policy-configmap", "policy"):
        assert cluster.run(wait_for_binding(cluster, "p")) == "a"


@pytest.mark.parametrize("command", ["up", NAME])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("predicates: [{name: Nothing}]", "predicates[0].name: there is no predicate 'Nothing'"),
        ("priorities: [{name: A, weight: 1}]", "priorities[0].name: there is no priority 'A'"),
        ("predicat: []", "Object contains unknown field `predicat`"),
    ],
)
def test_invalid_policy_file_is_rejected(sampan: Sampan, tmp_path: Path, command: str, text: str, message: str) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(text)
    words = ("--master", "http://127.0.0.1:1") if command == NAME else ()
    error = sampan.expect_failure(command, *words, "--policy-config-file", str(policy))
    assert error == f"Error: --policy-config-file: {policy}: {message}\n"


def test_invalid_algorithm_provider_flags_are_rejected(sampan: Sampan) -> None:
    words = (NAME, "--master", "http://127.0.0.1:1", "--algorithm-provider")
    assert "there is no 'Best'; supported: DefaultProvider, ClusterAutoscaler" in sampan.expect_failure(*words, "Best")
    error = sampan.expect_failure(*words, "DefaultProvider", "--policy-config-file", "/x")
    assert "--policy-config-file: cannot be given together with --algorithm-provider" in error


def test_why_reads_the_decision_from_the_scheduler_port(sampan: Sampan, cluster: Cluster, token: str) -> None:
    """The scheduler authenticates and authorizes the token by reviews of the API server."""
    cluster.run(make_node(cluster, "a"))
    cluster.run(cluster.client.for_kind(Pod).create(builders.pod("p", namespace="default")))
    port = free_port()
    words = ("--kubeconfig", str(cluster.kubeconfig), "--secure-port", str(port), "--leader-elect=false")
    with sampan.running_forked_server(NAME, *words):
        assert cluster.run(wait_for_binding(cluster, "p")) == "a"
        where = ("-s", cluster.url, "--insecure-skip-tls-verify", "--scheduler", f"https://127.0.0.1:{port}")
        assert "decided " in sampan("why", "pod/p", *where, "--token", token)


def test_standby_scheduler_serves_no_resource_metrics(sampan: Sampan, cluster: Cluster, token: str) -> None:
    now = times.format_micro_time(time.time())
    held = LeaseSpec(holderIdentity="another", leaseDurationSeconds=3600, acquireTime=now, renewTime=now)
    lease = Lease(metadata=ObjectMeta(name=NAME, namespace="kube-system"), spec=held)
    cluster.run(cluster.client.for_kind(Lease).create(lease))
    port = free_port()
    with sampan.running_forked_server(
        NAME, "--kubeconfig", str(cluster.kubeconfig), "--secure-port", str(port)
    ) as process:
        assert process.stdout.readline() == f"{NAME} has started\n"
        assert get(f"https://127.0.0.1:{port}/metrics/resources", token=token) == (200, "")
        code, metrics = get(f"https://127.0.0.1:{port}/metrics", token=token)
        assert code == 200
        assert f'leader_election_master_status{{name="{NAME}"}} 0' in metrics
