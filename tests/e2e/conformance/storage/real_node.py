"""A cluster with one real node, on which the scenarios of a module run concurrently.

A test is a scenario: `@concurrent_scenario` on an async function that takes a `RealNode`. The first test of a module
starts all selected scenarios; each test then reports the result of its own scenario.
"""

import asyncio
import os
import shutil
import ssl
import urllib.request
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sampan.api.codec import json
from sampan.api.types.core_v1 import ConfigMap, Namespace, Pod, Secret, ServiceAccount
from sampan.machinery.client import DeleteParameters, PatchType, Selection
from sampan.runtimes import kernel
from sampan.testing import Cluster

IMAGE = "sampan.local/host"
NODE = "node-0"
COMPONENTS = ("apiserver", "controllers", "kubelet")
_CONCURRENT_SCENARIOS = 8
_TIMEOUT_S = 120
_ENDED = ("Succeeded", "Failed")

Volume = dict[str, Any]


class RealNode:
    """The real node and a namespace for one scenario."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.client, self.namespace, self.url = cluster.client, namespace, cluster.url
        self._tls = ssl.create_default_context(cafile=str(cluster.ca))
        self._tls.load_cert_chain(*cluster.client_certificate)

    async def fetch(self, path: str) -> str:
        """Return what the API server responds over HTTP."""

        def get() -> str:
            with urllib.request.urlopen(f"{self.url}{path}", context=self._tls, timeout=60) as response:
                return str(response.read(), "utf-8")

        return await asyncio.to_thread(get)

    async def config_map(self, name: str, namespace: str = "", **content: Any) -> None:
        await self._create(ConfigMap, name, namespace, content)

    async def secret(self, name: str, namespace: str = "", **content: Any) -> None:
        await self._create(Secret, name, namespace, content)

    async def change(self, kind: type[Any], name: str, **content: Any) -> None:
        await self.client.for_kind(kind).patch(name, content, self.namespace, type=PatchType.MERGE)

    async def remove(self, kind: type[Any], name: str) -> None:
        await self.client.for_kind(kind).delete(name, self.namespace)

    async def output(self, script: str, *volumes: Volume, **options: Any) -> str:
        """Return what the script of a pod prints, after the pod has succeeded."""
        return self.output_of(await self.wait_until_succeeded(await self.start(script, *volumes, **options)))

    async def start(
        self,
        script: str,
        *volumes: Volume,
        name: str = "p",
        mounts: Sequence[dict[str, Any]] | None = None,
        container: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        **spec: Any,
    ) -> str:
        """Create a pod whose container runs the script, and return the name of the pod. Each volume is mounted under
        its name unless `mounts` is given."""
        mounts = mounts or [{"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in volumes]
        command = ["sh", "-c", f"({script}) > /dev/termination-log 2>&1"]
        first = {"name": "c", "image": IMAGE, "command": command, "volumeMounts": list(mounts), **(container or {})}
        whole: dict[str, Any] = {
            "nodeName": NODE,
            "restartPolicy": "Never",
            "volumes": list(volumes),
            "containers": [first],
        }
        whole |= {"automountServiceAccountToken": False, "terminationGracePeriodSeconds": 0, **spec}
        value = {"metadata": {"name": name, "namespace": self.namespace, **(metadata or {})}, "spec": whole}
        await self.client.for_kind(Pod).create(json.from_value(value, Pod))
        return name

    async def wait_until_running(self, name: str) -> Pod:
        return await self.wait_for(name, lambda pod: pod.status.phase == "Running")

    async def wait_until_succeeded(self, name: str) -> Pod:
        pod = await self.wait_for(name, lambda pod: pod.status.phase in _ENDED)
        assert pod.status.phase == "Succeeded", self.output_of(pod)
        return pod

    def output_of(self, pod: Pod) -> str:
        """Return the termination messages of the containers."""
        states = [status.state.terminated for status in pod.status.containerStatuses if status.state is not None]
        return "".join(state.message for state in states if state is not None).strip()

    async def wait_for(self, name: str, holds: Callable[[Pod], bool]) -> Pod:
        selection = Selection(namespace=self.namespace, fields=f"metadata.name={name}")
        async with asyncio.timeout(_TIMEOUT_S), self.client.for_kind(Pod).watch(selection) as events:
            async for batch in events:
                for event in batch:
                    if event.type in ("ADDED", "MODIFIED") and holds(event.object):
                        pod: Pod = event.object
                        return pod
        raise AssertionError("the watch has ended")

    async def _create(self, kind: type[Any], name: str, namespace: str, content: dict[str, Any]) -> None:
        meta = {"name": name, "namespace": namespace or self.namespace}
        await self.client.for_kind(kind).create(json.from_value({"metadata": meta, **content}, kind))


Scenario = Callable[[RealNode], Awaitable[None]]


def concurrent_scenario(scenario: Scenario) -> Callable[..., None]:
    def test(batch: "Batch") -> None:
        batch.raise_failure_of(scenario)

    test.__name__, test.__doc__, test.__module__ = _name(scenario), scenario.__doc__, scenario.__module__
    test.scenario = scenario  # type: ignore[attr-defined]
    return test


def _name(scenario: Scenario) -> str:
    return str(getattr(scenario, "__name__", scenario))


class Batch:
    """The results of the scenarios of a module."""

    def __init__(self, cluster: Cluster, scenarios: Sequence[Scenario]) -> None:
        self._faults: dict[Scenario, BaseException | None] = {}
        cluster.run(self._play(cluster, scenarios), timeout_s=550)

    def raise_failure_of(self, scenario: Scenario) -> None:
        if (fault := self._faults[scenario]) is not None:
            raise fault

    async def _play(self, cluster: Cluster, scenarios: Sequence[Scenario]) -> None:
        limit = asyncio.Semaphore(_CONCURRENT_SCENARIOS)

        async def run_limited(number: int, scenario: Scenario) -> None:
            async with limit:
                try:
                    await run_scenario(cluster, f"test-{number}", scenario)
                    self._faults[scenario] = None
                except Exception as fault:
                    self._faults[scenario] = fault

        async with asyncio.TaskGroup() as group:
            for number, scenario in enumerate(scenarios):
                group.create_task(run_limited(number, scenario))


async def run_scenario(cluster: Cluster, namespace: str, scenario: Scenario) -> None:
    client = cluster.client
    await client.for_kind(Namespace).create(json.from_value({"metadata": {"name": namespace}}, Namespace))
    await wait_for_service_account(cluster, namespace)
    try:
        await scenario(RealNode(cluster, namespace))
    finally:
        selection = Selection(namespace=namespace)
        await client.for_kind(Pod).delete_collection(selection, options=DeleteParameters(grace_period_s=0))


async def wait_for_service_account(cluster: Cluster, namespace: str) -> None:
    """Wait until the namespace has its default service account, without which pods are rejected."""
    async with asyncio.timeout(_TIMEOUT_S):
        accounts = cluster.client.for_kind(ServiceAccount)
        async with accounts.watch(Selection(namespace=namespace, fields="metadata.name=default")) as events:
            async for batch in events:
                if any(event.type == "ADDED" for event in batch):
                    return


def leftovers(path: Path, group: str) -> list[str]:
    """Return the mounts below the data directory and the cgroups of the node."""
    groups = [str(path) for path in Path("/sys/fs/cgroup").glob(f"*{group}") if group]
    groups += [str(path) for path in Path("/sys/fs/cgroup").glob(f"*/{group.strip('/')}") if group]
    return sorted([*map(str, kernel.mounts_below(path)), *groups])


@contextmanager
def real_cluster(*more: str, nodes: int = 1) -> Iterator[Cluster]:
    """Run a cluster with real nodes and further components, and check that nothing is left of the nodes afterwards."""
    if reason := missing_requirement():
        pytest.skip(reason)
    with Cluster(nodes=nodes, runtime="oci", components=(*COMPONENTS, *more)) as cluster:
        assert cluster.assembly.real_nodes is not None
        configs = [kubelet.config for kubelet in cluster.assembly.real_nodes.kubelets]
        yield cluster
    for config in configs:
        assert leftovers(config.root.parents[2], config.cgroup_root) == []


def missing_requirement() -> str:
    """Return why this machine cannot run a real node; empty if it can."""
    if os.geteuid() != 0:
        return "real pods need root"
    return "" if shutil.which("crun") or shutil.which("runc") else "there is no crun or runc here"
