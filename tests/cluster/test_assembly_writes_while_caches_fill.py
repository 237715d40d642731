"""Clients write while a cluster starts, restarts, loses its watches and changes its leader.

An informer reads the objects of its initial list while they are being replaced. A failure of any component ends the
cluster of a test, so these tests pass only if no component fails.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from sampan.api.types.apiextensions_v1 import CustomResourceDefinition
from sampan.api.types.coordination_v1 import Lease
from sampan.api.types.core_v1 import ConfigMap, ReplicationController, Secret
from sampan.apiserver.config.server_config import ServerConfig
from sampan.cluster.assembly import Assembly
from sampan.cluster.cluster_config import APISERVER, CONTROLLERS, ClusterConfig, StoreConfig
from sampan.cluster.leadership import LeadershipConfig
from sampan.controllers.identities import MANAGER
from sampan.controllers.manager import COMPONENT
from sampan.host.clock import RealClock
from sampan.machinery import errors
from sampan.machinery.client import Client
from sampan.machinery.client.options import PatchType
from sampan.testing.faults import Fault, FaultEffect, FaultInjector, FaultRule
from tests.eventually import eventually

CLIENTS = 16
OBJECTS_PER_KIND, DEFINITIONS = 80, 4
WRITES_PER_CLIENT = 12
"""The writes of each client during each change of the cluster."""
PADDING = "x" * 2000
COUNT = "count"


def make_objects() -> list[Any]:
    rows: list[dict[str, Any]] = []
    for number in range(OBJECTS_PER_KIND):
        metadata = {"name": f"object-{number:03}", "namespace": "default", "annotations": {"padding": PADDING}}
        rows += (
            {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata},
            {"kind": "Secret", "apiVersion": "v1", "metadata": metadata},
            {
                "kind": "ReplicationController",
                "apiVersion": "v1",
                "metadata": metadata,
                "spec": {
                    "replicas": 0,
                    "selector": {"app": "a"},
                    "template": {
                        "metadata": {"labels": {"app": "a"}},
                        "spec": {"containers": [{"name": "c", "image": "i"}]},
                    },
                },
            },
        )
    return [msgspec.convert(row, KINDS[row["kind"]], strict=False) for row in rows] + [
        msgspec.convert(make_definition(f"kind{number}"), CustomResourceDefinition) for number in range(DEFINITIONS)
    ]


def make_definition(singular: str) -> dict[str, Any]:
    group, plural = "example.com", f"{singular}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "kind": "CustomResourceDefinition",
        "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"name": f"{plural}.{group}", "annotations": {"padding": PADDING}},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": singular, "kind": singular.title()},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in (ConfigMap, Secret, ReplicationController)}


class Writers:
    """Clients that count in annotations. Each has objects of its own."""

    def __init__(self, objects: list[Any]) -> None:
        ends = [*reversed(objects[-CLIENTS * 2 :])]
        self._shares = [ends[number::CLIENTS] for number in range(CLIENTS)]
        self._client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        """A client of the cluster that runs now, as soon as one does."""
        self.writes = [0] * CLIENTS
        self._writing: set[int] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._write(number)) for number in range(CLIENTS)]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    async def _write(self, number: int) -> None:
        share = self._shares[number]
        while True:
            client = await asyncio.shield(current := self._client)
            if current is not self._client:
                continue  # that cluster is stopping
            obj = share[self.writes[number] % len(share)]
            patch = {"metadata": {"annotations": {COUNT: str(self.writes[number])}}}
            name, namespace = obj.metadata.name, obj.metadata.namespace
            self._writing.add(number)
            try:
                await client.for_kind(type(obj)).patch(name, patch, namespace, type=PatchType.MERGE)
                self.writes[number] += 1
            except errors.Conflict:  # with the controllers, which write the status of CustomResourceDefinitions
                continue
            finally:
                self._writing.discard(number)

    def begin(self, client: Client) -> None:
        self._client.set_result(client)

    async def pause(self) -> None:
        """Let the clients finish their writes, and begin no other until there is a cluster again."""
        self._client = asyncio.get_running_loop().create_future()
        await eventually(lambda: not self._writing)

    async def wait_for_writes(self) -> None:
        """Wait until each client has written as often as it does during one change of the cluster."""
        goals = [count + WRITES_PER_CLIENT for count in self.writes]
        await eventually(lambda: all(count >= goal for count, goal in zip(self.writes, goals, strict=True)))

    async def list_lost_writes(self, client: Client) -> list[str]:
        """Return the objects that do not have the last acknowledged count."""
        lost = []
        for share, writes in zip(self._shares, self.writes, strict=True):
            for index, obj in enumerate(share):
                written = [count for count in range(writes) if count % len(share) == index]
                stored = await client.for_kind(type(obj)).get(obj.metadata.name, obj.metadata.namespace)
                if written and stored.metadata.annotations.get(COUNT) != str(written[-1]):
                    lost.append(obj.metadata.name)
        return lost


@asynccontextmanager
async def running_cluster(path: Path, writers: Writers | None = None) -> AsyncIterator[tuple[Assembly, FaultInjector]]:
    """Run a cluster on the database at `path`. The clients begin when its controllers start."""

    def on_step(step: str) -> None:
        if writers is not None and step == "controllers":
            writers.begin(assembly.client("writer"))

    config = ClusterConfig(
        server=ServerConfig(bind_address="127.0.0.1"),
        store=StoreConfig(sqlite=path),
        components=(APISERVER, CONTROLLERS),
        leader_election=LeadershipConfig(lease_s=3, renew_s=2, retry_s=0.1),
        restarts_components=False,
    )
    assembly = Assembly(config=config, clock=RealClock(), on_step=on_step)
    faults = FaultInjector(
        pipeline=assembly.server.pipeline, scheme=assembly.server.scheme, on_loop=lambda function: function()
    )
    async with assembly:
        try:
            yield assembly, faults
        finally:
            if writers is not None:
                await writers.pause()


async def make_cluster(path: Path) -> list[Any]:
    """Create the objects in a new cluster, and return them."""
    objects = make_objects()
    async with running_cluster(path) as (cluster, _):
        client = cluster.client("test")
        await asyncio.gather(*(client.for_kind(type(obj)).create(obj) for obj in objects))
    return objects


async def expire_watches(cluster: Assembly, faults: FaultInjector) -> None:
    """End all watches of the controllers with 410 Expired, so that their informers list again."""
    effect = FaultEffect(watch_drop_s=3600, is_expired=True)
    with Fault(rule=FaultRule(verb="watch", user=MANAGER), effect=effect, injector=faults) as fault:
        assert fault.hits


def has_filled_caches(cluster: Assembly) -> bool:
    return cluster.controllers is not None and not cluster.controllers.informers.list_unsynced()


async def change_leader(cluster: Assembly, faults: FaultInjector) -> None:
    """Give the lease of the controllers to another candidate, and wait until the controllers lead again."""
    manager, leases = cluster.controllers, cluster.client("test").for_kind(Lease)
    patch = {"spec": {"holderIdentity": "another", "leaseDurationSeconds": 1}}
    await leases.patch(COMPONENT, patch, "kube-system", type=PatchType.MERGE)
    await eventually(lambda: cluster.controllers not in (None, manager))


async def test_no_component_fails_and_no_write_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    writers = Writers(await make_cluster(path))
    async with writers.running():
        for change in (expire_watches, change_leader):
            async with running_cluster(path, writers) as (cluster, faults):
                await writers.wait_for_writes()
                await eventually(lambda: has_filled_caches(cluster))
                await change(cluster, faults)
                await writers.wait_for_writes()
    async with running_cluster(path) as (cluster, _):
        assert await writers.list_lost_writes(cluster.client("test")) == []
