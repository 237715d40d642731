"""`sampan kube-controller-manager`: the controllers in a process of their own."""

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sampan.api.types.authentication_v1 import TokenRequest
from sampan.api.types.coordination_v1 import Lease
from sampan.api.types.core_v1 import ServiceAccount
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.rbac_v1 import ClusterRoleBinding, RoleRef, Subject
from sampan.cluster.assembly import wait_for_default_account
from sampan.machinery.client import Client, ResourceClient, Selection
from sampan.testing import Cluster
from tests.cli import command
from tests.cli.command import Sampan
from tests.cli.fork_server import ForkedServer
from tests.ports import free_port

NAME = "kube-controller-manager"
ONE_CONTROLLER = ("--controllers", "serviceaccount-controller")
_DURATIONS = {"lease-duration": "3s", "renew-deadline": "2s", "retry-period": "500ms"}
SHORT_LEASE = [f"--leader-elect-{name}={duration}" for name, duration in _DURATIONS.items()]


@pytest.fixture(scope="module")
def api_server() -> Iterator[Cluster]:
    with Cluster(components=["apiserver"]) as cluster:
        yield cluster


@pytest.fixture
def cluster(api_server: Cluster) -> Iterator[Cluster]:
    """The API server of all tests, without the service accounts and the lease of managers of other tests."""
    yield api_server
    api_server.run(delete_objects(api_server.client))


async def delete_objects(client: Client) -> None:
    for namespace in ("default", "kube-system"):
        await client.for_kind(ServiceAccount).delete_collection(Selection(namespace=namespace))
    await client.for_kind(Lease).delete_collection(Selection(namespace="kube-system"))


@contextmanager
def running_manager(sampan: Sampan, cluster: Cluster, *words: str) -> Iterator[tuple[int, ForkedServer]]:
    port = free_port()
    command = (NAME, "--kubeconfig", str(cluster.kubeconfig), "--secure-port", str(port), *words)
    with sampan.running_forked_server(*command) as process:
        assert process.stdout.readline() == f"{NAME} has started\n"
        yield port, process


def get(port: int, path: str, token: str = "") -> tuple[int, str]:
    return command.get(f"https://127.0.0.1:{port}{path}", token=token)


def wait_for_account(cluster: Cluster, namespace: str) -> None:
    cluster.run(wait_for_default_account(cluster.client, namespace))


@pytest.mark.parametrize("own_accounts", ["false", "true"])
def test_controllers_run_against_an_api_server_in_another_process(
    sampan: Sampan, cluster: Cluster, own_accounts: str
) -> None:
    words = ("--use-service-account-credentials", own_accounts)
    with running_manager(sampan, cluster, *ONE_CONTROLLER, *words) as (_, process):
        wait_for_account(cluster, "default")
        lease = cluster.run(cluster.client.for_kind(Lease).get(NAME, "kube-system"))
        assert re.search(rf"_{process.pid}-", lease.spec.holderIdentity or "")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    lease = cluster.run(cluster.client.for_kind(Lease).get(NAME, "kube-system"))
    assert not lease.spec.holderIdentity, "the lease is released"
    accounts = cluster.run(cluster.client.for_kind(ServiceAccount).list())
    own = [obj for obj in accounts.items if obj.metadata.name == "service-account-controller"]
    assert bool(own) is (own_accounts == "true")


def test_secure_port_serves_health_and_authorized_metrics(sampan: Sampan, cluster: Cluster) -> None:
    async def watcher() -> str:
        meta = ObjectMeta(name="watcher", namespace="default")
        accounts = cluster.client.for_kind(ServiceAccount)
        await accounts.create(ServiceAccount(metadata=meta))
        subject = Subject(kind="ServiceAccount", name="watcher", namespace="default")
        role = RoleRef(apiGroup="rbac.authorization.k8s.io", kind="ClusterRole", name="system:monitoring")
        binding = ClusterRoleBinding(metadata=ObjectMeta(name="watcher"), subjects=[subject], roleRef=role)
        await cluster.client.for_kind(ClusterRoleBinding).create(binding)
        token = await accounts.create_subresource("token", "watcher", TokenRequest(), "default")
        return str(token.status.token)

    token = cluster.run(watcher())
    with running_manager(sampan, cluster) as (port, _):
        assert get(port, "/healthz") == (200, "ok")
        assert get(port, "/metrics") == (403, 'forbidden: User "system:anonymous" cannot get path "/metrics"\n')
        assert get(port, "/metrics", "wrong")[0] == 401
        assert get(port, "/metrics/slis")[0] == 403
        _, results = get(port, "/metrics/slis", token)
        assert ',type="healthz",status="success"} ' in results
        code, text = get(port, "/metrics", token)
        assert code == 200
        assert "process_cpu_seconds_total" in text
        assert "leader_election_master_status" in text
        assert get(port, "/configz", token)[0] == 403
        assert get(port, "/healthz/nothing")[0] == 404


def test_metrics_have_the_values_of_the_feature_gates(sampan: Sampan, cluster: Cluster) -> None:
    flags = ("--authorization-always-allow-paths=/metrics", "--feature-gates=StatefulSetRecreateStrategy=true")
    with running_manager(sampan, cluster, *ONE_CONTROLLER, *flags) as (port, _):
        lines = get(port, "/metrics")[1].splitlines()
        assert 'kubernetes_feature_enabled{name="StatefulSetRecreateStrategy",stage="ALPHA"} 1' in lines
        assert 'kubernetes_feature_enabled{name="GenericWorkload",stage="BETA"} 0' in lines


def test_authorization_always_allow_paths_skip_authorization(sampan: Sampan, cluster: Cluster) -> None:
    flag = "--authorization-always-allow-paths"
    with running_manager(sampan, cluster, *ONE_CONTROLLER, f"{flag}=/healthz,/metric*") as (port, _):
        assert get(port, "/metrics")[0] == 200
        assert get(port, "/configz")[0] == 403
    with running_manager(sampan, cluster, *ONE_CONTROLLER, flag, "/configz") as (port, _):
        assert get(port, "/metrics")[0] == 403
        assert get(port, "/configz")[0] == 200


def test_invalid_flags_are_reported(sampan: Sampan, cluster: Cluster, tmp_path: Path) -> None:
    where = ("--kubeconfig", str(cluster.kubeconfig))
    assert "--kubeconfig" in sampan.expect_failure(NAME, "--kubeconfig", str(tmp_path / "none"))
    assert "not in a cluster" in sampan.expect_failure(NAME)
    assert "--controllers: " in sampan.expect_failure(NAME, *where, "--controllers", "nothing")
    assert "give both or neither" in sampan.expect_failure(NAME, *where, "--tls-cert-file", str(cluster.ca))
    assert "--leader-elect-lease-duration" in sampan.expect_failure(NAME, *where, "--leader-elect-lease-duration", "1s")


def test_second_instance_becomes_leader_after_the_first_is_killed(sampan: Sampan, cluster: Cluster) -> None:
    leases = cluster.client.for_kind(Lease)
    with running_manager(sampan, cluster, *ONE_CONTROLLER, *SHORT_LEASE) as (_, first):
        wait_for_account(cluster, "default")
        with running_manager(sampan, cluster, *ONE_CONTROLLER, *SHORT_LEASE) as (_, second):
            first.kill()
            first.wait(60)
            cluster.run(wait_for_holder(leases, second.pid))


async def wait_for_holder(leases: ResourceClient[Lease], pid: int) -> None:
    """Wait until the process holds the lease."""
    async with leases.watch(initial_events=True) as events:
        async for batch in events:
            if any(
                f"_{pid}-" in (event.object.spec.holderIdentity or "") for event in batch if event.type != "BOOKMARK"
            ):
                return


def test_leader_that_loses_the_lease_exits_with_one_line(sampan: Sampan, cluster: Cluster) -> None:
    leases = cluster.client.for_kind(Lease)
    held_lease = {"spec": {"holderIdentity": "another", "leaseDurationSeconds": 3600}}
    with running_manager(sampan, cluster, *ONE_CONTROLLER, *SHORT_LEASE) as (_, process):
        cluster.run(wait_for_holder(leases, process.pid))
        cluster.run(leases.patch(NAME, held_lease, "kube-system"))
        output = process.communicate(60)
        assert process.returncode == 1
    assert re.fullmatch(rf"Error: \S+ lost lease {NAME}\n", output), output
