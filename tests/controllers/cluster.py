"""A whole API server in this process with some of the controllers, on a virtual clock."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sampan.api.feature_gates import FeatureGates
from sampan.api.types.core_v1 import Binding, Node, ObjectReference, Pod
from sampan.api.types.flowcontrol_v1 import FlowSchema
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.apiserver.config.server_config import ServerConfig
from sampan.apiserver.loopback import LoopbackTransport
from sampan.apiserver.request.call import AUTHENTICATED, UserInfo, service_account_user
from sampan.apiserver.server import ApiServer
from sampan.apiserver.services import ProcessComponents
from sampan.cluster.nodes.local_kubelets import LocalKubelets
from sampan.controllers.descriptor import ControllerConfig
from sampan.controllers.identities import MANAGER, NAMESPACE, account_of
from sampan.controllers.manager import ControllerManager
from sampan.host.activity import Activity
from sampan.host.clock import VirtualClock
from sampan.kubelet.config import KubeletConfig
from sampan.kubelet.fleet import Fleet
from sampan.machinery import errors
from sampan.machinery.client import Client
from sampan.machinery.informer import InformerFactory
from sampan.runtimes.hollow import NO_STAGES, HollowStages
from sampan.storage.memory import MemoryBackend, MemoryContent
from tests.eventually import eventually
from tests.shared_objects import modified_shared_objects

if TYPE_CHECKING:
    from sampan.scheduler.scheduler import Scheduler

CONFIG = ControllerConfig(root_ca="the bundle")
_IDENTITY_LEASES = "/registry/leases/kube-system/"


@dataclass(slots=True)
class Cluster:
    clock: VirtualClock
    backend: MemoryBackend
    server: ApiServer
    transport: LoopbackTransport
    fleets: list[Fleet] = field(default_factory=list)
    """The running hollow nodes, whose kubelets the server finds in this process."""

    @property
    def client(self) -> Client:
        return self.make_client("test")

    def make_client(self, component: str) -> Client:
        return Client(transport=self.transport, clock=self.clock, component=component)

    def controller_client(self, name: str) -> Client:
        """A client with the permissions of the named controller, or for "" with those of the shared informers."""
        user = service_account_user(NAMESPACE, account_of(name)) if name else UserInfo(MANAGER, groups=(AUTHENTICATED,))
        return Client(transport=self.transport.as_user(user), clock=self.clock, component="kube-controller-manager")

    @asynccontextmanager
    async def running(self, *names: str, config: ControllerConfig = CONFIG) -> AsyncIterator[ControllerManager]:
        """Run these controllers."""
        manager = ControllerManager(
            client_for=self.controller_client,
            clock=self.clock,
            names=names,
            config=config,
        )
        forget = self.clock.on_idle(manager.activity.idle)
        try:
            async with asyncio.TaskGroup() as group:
                task = group.create_task(manager.run())
                await self.clock.settle()
                yield manager
                task.cancel()
        finally:
            forget()

    @asynccontextmanager
    async def nodes(
        self, *names: str, config: KubeletConfig | None = None, stages: HollowStages = NO_STAGES
    ) -> AsyncIterator[Fleet]:
        """Run hollow nodes of these names, each with the permissions of its own node; docs/nodes.md describes how
        pods are made to end, to fail or to start late. A node made with `hollow_node` runs too."""
        fleet = Fleet(
            client=self.make_client("kubelet"),
            client_for=self.node_client,
            clock=self.clock,
            config=config,
            stages=stages,
            names=names,
        )
        forget = self.clock.on_idle(fleet.activity.idle)
        try:
            async with asyncio.TaskGroup() as group:
                task = group.create_task(fleet.run())
                await fleet.wait_until_running(names)
                await self.clock.settle()
                self.fleets.append(fleet)
                yield fleet
                task.cancel()
        finally:
            self.fleets.clear()
            forget()

    @asynccontextmanager
    async def running_scheduler(self) -> AsyncIterator["Scheduler"]:
        """Run the scheduler with its own permissions. New nodes have a taint until node-lifecycle-controller, which
        must be running, removes it."""
        from sampan.scheduler.scheduler import make_scheduler

        user = UserInfo("system:kube-scheduler", groups=(AUTHENTICATED,))
        client = Client(transport=self.transport.as_user(user), clock=self.clock, component="kube-scheduler")
        activity = Activity()
        scheduler = make_scheduler(client=client, clock=self.clock, activity=activity)
        forget = self.clock.on_idle(activity.idle)
        try:
            async with asyncio.TaskGroup() as group:
                task = group.create_task(scheduler.run())
                await self.clock.settle()
                yield scheduler
                task.cancel()
        finally:
            forget()

    @asynccontextmanager
    async def running_binder(self) -> AsyncIterator[None]:
        """Bind every pod that has no node to the nodes in turn, in place of a scheduler."""
        binder = Binder(client=self.make_client("binder"))
        forget = self.clock.on_idle(binder.activity.idle)
        try:
            async with asyncio.TaskGroup() as group:
                task = group.create_task(binder.run())
                await self.clock.settle()
                yield
                task.cancel()
        finally:
            forget()

    def node_client(self, name: str) -> Client:
        user = UserInfo(f"system:node:{name}", groups=("system:nodes", AUTHENTICATED))
        return Client(transport=self.transport.as_user(user), clock=self.clock, component="kubelet")

    async def revision(self) -> int:
        """The revision of the store, which rises with every write."""
        return await self.backend.current_revision()


class Binder:
    """Binds pods to nodes in turn, without regard to their requests."""

    def __init__(self, *, client: Client) -> None:
        self.activity = Activity()
        self._client = client
        self._turn = 0
        self._informers = InformerFactory(client=client, activity=self.activity)
        self._pods, self._nodes = self._informers.for_kind(Pod), self._informers.for_kind(Node)
        self._unbound: asyncio.Queue[Pod] = asyncio.Queue()

    async def run(self) -> None:
        async with self._informers:
            await self._informers.wait_synced()
            self._pods.subscribe(self._on_pod)
            self._nodes.subscribe(self._on_node)
            while True:
                pod = await self._unbound.get()
                with self.activity:
                    await self._bind(pod)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None and not new.spec.nodeName and new.metadata.deletionTimestamp is None:
            self._unbound.put_nowait(new)

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        if old is None:
            for pod in self._pods.lister:
                self._on_pod(None, pod)

    async def _bind(self, pod: Pod) -> None:
        nodes = sorted(node.metadata.name for node in self._nodes.lister if not node.spec.unschedulable)
        if not nodes:
            return
        meta = ObjectMeta(name=pod.metadata.name, namespace=pod.metadata.namespace, uid=pod.metadata.uid)
        target = ObjectReference(kind="Node", name=nodes[self._turn % len(nodes)])
        with suppress(errors.Conflict, errors.NotFound):
            self._turn += 1
            await self._client.for_kind(Pod).create_subresource(
                "binding", meta.name, Binding(metadata=meta, target=target), meta.namespace
            )


_new_clusters: dict[tuple[Any, ...], MemoryContent] = {}
"""The objects that a server creates in an empty store, by runtime configuration. They take more than half of the CPU
time of a start, so that they are created only once."""


@asynccontextmanager
async def cluster(
    runtime_config: Mapping[str, bool] | None = None, feature_gates: FeatureGates | None = None
) -> AsyncIterator[Cluster]:
    runtime_config, feature_gates = runtime_config or {}, feature_gates or FeatureGates()
    server_config = ServerConfig(
        secure_port=0, advertise_address="192.0.2.1", runtime_config=runtime_config, feature_gates=feature_gates
    )
    key = (frozenset(runtime_config.items()), frozenset(feature_gates.settings.items()), feature_gates.level)
    if key not in _new_clusters:
        _new_clusters[key] = await _content_of_a_new_cluster(server_config)
    server_config, clock, fleets = replace(server_config, has_system_objects=True), VirtualClock(), list[Fleet]()
    find_kubelet = LocalKubelets(clock=clock, fleet=lambda: fleets[0] if fleets else None, real=lambda: None)
    process = ProcessComponents(find_kubelet=find_kubelet)
    async with (
        asyncio.timeout(60),
        MemoryBackend(clock=clock, content=_new_clusters[key]) as backend,
        ApiServer(config=server_config, backend=backend, clock=clock, process=process) as server,
    ):
        transport = server.loopback()
        forget = clock.on_idle(transport.activity.idle)
        try:
            yield Cluster(clock, backend, server, transport, fleets)
            assert modified_shared_objects(server.registry) == []
        finally:
            forget()


async def _content_of_a_new_cluster(config: ServerConfig) -> MemoryContent:
    clock = VirtualClock()
    async with (
        MemoryBackend(clock=clock) as backend,
        ApiServer(config=config, backend=backend, clock=clock) as server,
    ):
        flow_schemas = Client(transport=server.loopback(), clock=clock, component="test").for_kind(FlowSchema)

        async def has_written_all() -> bool:
            """Whether the server has written what it writes in the background after its start."""
            has_conditions = all(schema.status.conditions for schema in (await flow_schemas.list()).items)
            return has_conditions and await backend.count(_IDENTITY_LEASES) == 1

        await eventually(has_written_all)
        return backend.content()


async def check_second_run_writes_nothing(cluster: Cluster, *names: str) -> None:
    """Start the controllers again and check that they write nothing, because nothing is left to reconcile."""
    before = await cluster.revision()
    async with cluster.running(*names):
        await cluster.clock.advance(60)
    assert await cluster.revision() == before


def names_of(objects: Sequence[Any]) -> list[str]:
    return sorted(obj.metadata.name for obj in objects)
