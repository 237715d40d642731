"""API server, controller manager and scheduler in processes of their own, with their own keys, and hollow nodes: all
traffic uses TLS, and each component has only the permissions of its role."""

import asyncio
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.apps_v1 import Deployment
from sampan.api.types.coordination_v1 import Lease
from sampan.api.types.core_v1 import Event, Pod
from sampan.cluster import kubeconfig
from sampan.cluster.pki import ACCOUNTS, ADMIN, CA, SERVER, Pki
from sampan.host.clock import RealClock
from sampan.kubelet.fleet import Fleet
from sampan.machinery.client import Client, Selection
from sampan.machinery.client import kubeconfig as kubeconfigs
from sampan.machinery.client.http import HttpTransport
from sampan.machinery.pki import certificates
from tests.cli.command import Sampan, wait_until_ready
from tests.ports import free_port

TIMEOUT_S = 120
NODES = ("one", "two")
QUICK = ("--leader-elect-lease-duration=8s", "--leader-elect-renew-deadline=7s", "--leader-elect-retry-period=500ms")


@dataclass(slots=True)
class ControlPlane:
    """The API server and a CA that issues the certificate of each component."""

    sampan: Sampan
    directory: Path
    url: str
    pki: Pki

    def kubeconfig(self, user: str, *groups: str) -> Path:
        path = self.directory / f"{user.replace(':', '-')}.kubeconfig"
        ca = certificates.KeyPair(self.pki.certificate(CA).read_bytes(), self.pki.key(CA).read_bytes())
        request = certificates.SigningRequest(common_name=user, organizations=groups, is_client=True)
        pair = certificates.issue(ca, request, now=time.time())
        config = kubeconfig.admin_config(
            name="control_plane", url=self.url, ca=ca.certificate, certificate=pair.certificate, key=pair.key
        )
        kubeconfig.write(path, config)
        return path

    @asynccontextmanager
    async def client(self, user: str, *groups: str) -> AsyncIterator[Client]:
        access = kubeconfigs.load(self.kubeconfig(user, *groups))
        async with HttpTransport(access) as transport:
            yield Client(transport=transport, clock=RealClock(), component="test")

    @contextmanager
    def component(self, name: str, *words: str) -> Iterator["subprocess.Popen[str]"]:
        where = ("--kubeconfig", str(self.kubeconfig(f"system:{name}")), "--secure-port", "0")
        with self.sampan.running_command(name, *where, *QUICK, *words) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == f"{name} has started\n"
            yield process

    def manager(self, *more: str) -> AbstractContextManager["subprocess.Popen[str]"]:
        words = {
            "--root-ca-file": self.pki.certificate(CA),
            "--service-account-private-key-file": self.pki.key(ACCOUNTS),
            "--cluster-signing-cert-file": self.pki.certificate(CA),
            "--cluster-signing-key-file": self.pki.key(CA),
        }
        arguments = [str(word) for pair in words.items() for word in pair]
        return self.component("kube-controller-manager", "--use-service-account-credentials", *arguments, *more)


@pytest.fixture
def control_plane(tmp_path: Path) -> Iterator[ControlPlane]:
    home = tmp_path / "home"
    home.mkdir()
    pki, port = Pki(tmp_path / "pki"), free_port()
    pki.ensure(names=["localhost", "127.0.0.1"], now=time.time())
    words = {
        "--secure-port": port,
        "--bind-address": "127.0.0.1",
        "--tls-cert-file": pki.certificate(SERVER),
        "--tls-private-key-file": pki.key(SERVER),
        "--client-ca-file": pki.certificate(CA),
        "--service-account-signing-key-file": pki.key(ACCOUNTS),
        "--service-account-issuer": "https://kubernetes.default.svc",
    }
    sampan = Sampan(home)
    with sampan.running_command("kube-apiserver", *(str(word) for pair in words.items() for word in pair)):
        wait_until_ready(f"https://127.0.0.1:{port}")
        assert pki.certificate(ADMIN).exists()
        yield ControlPlane(sampan, tmp_path, f"https://127.0.0.1:{port}", pki)


@asynccontextmanager
async def nodes(control_plane: ControlPlane, admin: Client) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        own = {
            name: await stack.enter_async_context(control_plane.client(f"system:node:{name}", "system:nodes"))
            for name in NODES
        }
        fleet = Fleet(client=admin, client_for=own.__getitem__, clock=RealClock(), names=NODES)
        group = await stack.enter_async_context(asyncio.TaskGroup())
        task = group.create_task(fleet.run())
        await fleet.wait_until_running(NODES)
        yield
        task.cancel()


def deployment(name: str) -> Deployment:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": name}}, "template": template}
    return codec.from_value({"metadata": {"name": name, "namespace": "default"}, "spec": spec}, Deployment)


async def wait_for_object(
    client: Client, kind: type[Any], name: str, namespace: str, is_so: Callable[[Any], bool]
) -> Any:
    chosen = Selection(namespace=namespace, fields=f"metadata.name={name}")
    async with asyncio.timeout(TIMEOUT_S), client.for_kind(kind).watch(chosen, initial_events=True) as events:
        async for batch in events:
            for event in batch:
                if event.key.name and is_so(event.object):
                    return event.object
    raise AssertionError("the watch ended")


def is_available(deployment: Deployment) -> bool:
    return deployment.status.availableReplicas == deployment.spec.replicas


def test_standby_controller_manager_takes_over_from_a_killed_leader(control_plane: ControlPlane) -> None:
    async def main(managers: "dict[int, subprocess.Popen[str]]") -> None:
        async with control_plane.client("kubernetes-admin", "system:masters") as admin, nodes(control_plane, admin):
            await admin.for_kind(Deployment).create(deployment("first"))
            await wait_for_object(admin, Deployment, "first", "default", is_available)
            lease = await admin.for_kind(Lease).get("kube-controller-manager", "kube-system")
            leader = next(pid for pid in managers if f"_{pid}-" in (lease.spec.holderIdentity or ""))
            managers.pop(leader).kill()
            (other,) = managers
            await admin.for_kind(Deployment).create(deployment("second"))
            await wait_for_object(admin, Deployment, "second", "default", is_available)
            lease = await admin.for_kind(Lease).get("kube-controller-manager", "kube-system")
            assert f"_{other}-" in (lease.spec.holderIdentity or "")
            pods = (await admin.for_kind(Pod).list(Selection(namespace="default"))).items
            assert len(pods) == 6
            makers = {pod.metadata.managedFields[0].manager for pod in pods}
            assert makers == {"kube-controller-manager"}
            events = (await admin.for_kind(Event).list(Selection(namespace="default"))).items
            assert {"ScalingReplicaSet", "SuccessfulCreate", "Scheduled", "Started"} <= {
                event.reason for event in events
            }

    with ExitStack() as stack:
        stack.enter_context(control_plane.component("kube-scheduler"))
        started = [stack.enter_context(control_plane.manager()) for _ in range(2)]
        asyncio.run(main({process.pid: process for process in started}))


def test_disabled_controller_does_not_reconcile(control_plane: ControlPlane) -> None:
    async def main() -> None:
        async with control_plane.client("kubernetes-admin", "system:masters") as admin:
            await admin.for_kind(Deployment).create(deployment("first"))
            first = await wait_for_object(
                admin, Deployment, "first", "default", lambda obj: obj.status.observedGeneration == 1
            )
            assert not first.status.replicas
            leases = (await admin.for_kind(Lease).list(Selection(namespace="kube-system"))).items
            assert [lease.metadata.name for lease in leases if not lease.metadata.name.startswith("apiserver-")] == []
            assert (await admin.for_kind(Pod).list(Selection(namespace="default"))).items == []

    with control_plane.manager("--controllers=*,-replicaset-controller", "--leader-elect=false"):
        asyncio.run(main())
