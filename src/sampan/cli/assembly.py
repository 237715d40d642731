"""A cluster put together from its components in one process: what `sampan up` and the test library run."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Any

from sampan.apiserver.auth.accounts import account
from sampan.apiserver.call import AUTHENTICATED, User
from sampan.apiserver.config import ServerConfig
from sampan.apiserver.server import ApiServer
from sampan.cli.claims import Claims
from sampan.cli.failures import CliError
from sampan.cli.local_kubelets import LocalKubelets
from sampan.cli.node_summary import settle_hollow_taints
from sampan.cli.nodes_config import NodesConfig, with_pod_ranges
from sampan.cli.renewal import Renewals
from sampan.cli.scheduler_flags import SchedulerSettings, policy_of_map
from sampan.cli.terms import Terms, TermsConfig
from sampan.machinery import errors
from sampan.machinery.activity import Activity
from sampan.machinery.client import ADDED, Client, Selection
from sampan.machinery.clock import Clock, Idle, RealClock, VirtualClock
from sampan.storage.backend import Backend
from sampan.storage.compaction import SharedCompaction

if TYPE_CHECKING:
    from sampan.apiserver.call import Call
    from sampan.apiserver.results import Answer
    from sampan.cli.kubelet_ports import MakePorts
    from sampan.cli.real_nodes import RealNodes
    from sampan.controllers.manager import ControllerManager
    from sampan.kubelet.fleet import Fleet
    from sampan.scheduler.config import SchedulerConfig
    from sampan.scheduler.scheduler import Scheduler

log = logging.getLogger(__name__)

APISERVER, CONTROLLERS, SCHEDULER, KUBELET = "apiserver", "controllers", "scheduler", "kubelet"
COMPONENTS = (APISERVER, CONTROLLERS, SCHEDULER, KUBELET)
"""Those that there are, in the order they start."""

_ACCOUNT_PATIENCE_S = 10
_SCHEDULER_USER = "system:kube-scheduler"

_POLICY_RETRY_S = 2.0
_SHARED_STORE_SETTLE_S = 5.0
"""How long another API server on the same etcd may not have seen that a namespace is deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """Which store: a list of etcd URLs wins, else a SQLite file, else memory."""

    etcd_servers: Sequence[str] = ()
    etcd_ca: Path | None = None
    etcd_cert: Path | None = None
    etcd_key: Path | None = None
    etcd_prefix: str = ""
    sqlite: Path | None = None

    def open(self, clock: Clock) -> Backend:
        if self.etcd_servers:
            from sampan.storage.etcd import EtcdBackend

            return EtcdBackend(
                endpoints=self.etcd_servers,
                ca=self.etcd_ca,
                cert=self.etcd_cert,
                key=self.etcd_key,
                prefix=self.etcd_prefix,
            )
        if self.sqlite is not None:
            from sampan.storage.sqlite import SqliteBackend

            return SqliteBackend(path=self.sqlite, clock=clock)
        from sampan.storage.memory import MemoryBackend

        return MemoryBackend(clock=clock)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    server: ServerConfig
    store: StoreConfig
    components: Sequence[str] = COMPONENTS
    controllers: Sequence[str] = ("*",)
    root_ca: bytes = b""
    """What pods are given to trust the server by."""
    signing_ca: tuple[Path, Path] | None = None
    """The certificate and the key of the CA that signs certificates which are asked for."""
    nodes: NodesConfig = field(default_factory=NodesConfig)
    controller_settings: Mapping[str, Any] = field(default_factory=dict)
    """Fields of ControllerConfig."""
    scheduler: SchedulerSettings = field(default_factory=SchedulerSettings)
    has_default_class: bool = False
    """Claims that name no storage class get volumes on the nodes' disks."""
    renewals: Renewals = field(default_factory=Renewals)
    """Certificates that are renewed while the cluster runs."""
    kubelet_address: str = "127.0.0.1"
    """Where the kubelets of real nodes serve. The API server of this process reaches them without a connection."""
    leader_election: TermsConfig | None = None
    """For controllers and scheduler, where several processes share a store."""


class Assembly:
    """`async with Assembly(config=…, clock=…) as cluster:` runs the components until the block is left.

    With the service account controller among them, the default account is there when the block begins, so that pods
    can be created at once.
    """

    def __init__(self, *, config: ClusterConfig, clock: Clock) -> None:
        self._claims = Claims()
        self.config, self.clock = _with_pod_ranges(config, self._claims), clock
        self.backend = config.store.open(clock)
        self.server = ApiServer(config=config.server, backend=self.backend, clock=clock)
        self.transport = self.server.loopback()
        self.fleet: Fleet | None = None
        """The hollow nodes, once their code is loaded."""
        self.real_nodes: RealNodes | None = None
        """Those that run real pods, once their code is loaded."""
        self.scheduler: Scheduler | None = None
        """Once its code is loaded, while it leads."""
        self.controllers: ControllerManager | None = None
        """While they lead."""
        self.terms = Terms(config=config.leader_election, clock=clock, metrics=self.server.metrics)
        self.server.kubelets.local = LocalKubelets(clock=clock, fleet=lambda: self.fleet, real=lambda: self.real_nodes)
        self._running = AsyncExitStack()

    async def __aenter__(self) -> Assembly:
        async with AsyncExitStack() as running:
            running.callback(self._claims.close)
            await running.enter_async_context(self.backend)
            if self.config.store.etcd_servers:
                compaction = SharedCompaction(backend=self.backend, clock=self.clock)
                await running.enter_async_context(_beside(compaction.run()))
            await running.enter_async_context(self.server)
            await running.enter_async_context(_beside(self.config.renewals.run(RealClock())))
            await self._make_roles()
            self._tell_clock(running, self.transport.activity.idle)
            if (idle := getattr(self.backend, "idle", None)) is not None:  # etcd, elsewhere, keeps its own time
                self._tell_clock(running, idle)
            if KUBELET in self.config.components:
                await settle_hollow_taints(self.client("up"), self.config.nodes)
            if CONTROLLERS in self.config.components:
                await self._run_controllers(running)
            if SCHEDULER in self.config.components:
                await self._run_scheduler(running)
            if KUBELET in self.config.components:
                await self._run_nodes(running)
            self._running = running.pop_all()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._running.aclose()

    async def _make_roles(self) -> None:
        from sampan.cli.component_roles import ensure_component_roles

        await ensure_component_roles(self.client("up"))

    def client(self, component: str) -> Client:
        """A client in the server's own process."""
        return Client(transport=self.transport, clock=self.clock, component=component)

    def has_controller(self, name: str) -> bool:
        from sampan.controllers.manager import selected

        return CONTROLLERS in self.config.components and name in selected(self.config.controllers)

    async def _run_controllers(self, running: AsyncExitStack) -> None:
        from sampan.controllers.manager import COMPONENT, selected
        from sampan.machinery.controller_metrics import export_controllers

        selected(self.config.controllers)  # before anything runs: a name that there is not
        export_controllers(self.server.metrics, lambda: self.controllers.runners if self.controllers else ())
        self._tell_clock(running, self._controllers_idle)
        work = self.terms.run(COMPONENT, self._controller_client(""), self._control)
        await running.enter_async_context(_beside(work))
        self.server.registry.components["controller-manager"] = _is_running
        if self.has_controller("serviceaccount-controller"):
            await default_account(self.client("up"), "default")
        if self.config.has_default_class:
            from sampan.cli.default_class import default_class

            await default_class(self.client("up"))

    async def _control(self) -> None:
        """For one term."""
        self.controllers = self._make_controllers()
        try:
            await self.controllers.run()
        finally:
            self.controllers = None

    async def _controllers_idle(self) -> bool:
        return await self.controllers.activity.idle() if self.controllers is not None else False

    def _make_controllers(self) -> ControllerManager:
        from sampan.controllers.descriptor import ControllerConfig
        from sampan.controllers.manager import ControllerManager

        return ControllerManager(
            client_for=self._controller_client,
            clock=self.clock,
            names=self.config.controllers,
            config=ControllerConfig(
                root_ca=self.config.root_ca.decode(),
                namespace_settle_s=_SHARED_STORE_SETTLE_S if self.config.store.etcd_servers else 0,
                **self._signing_files(),
                **self.config.controller_settings,
            ),
            recorder=self.server.recorder,
        )

    def _signing_files(self) -> dict[str, Any]:
        account_key = self.config.server.service_account_key
        found = {"service_account_private_key_file": str(account_key) if account_key is not None else ""}
        if self.config.signing_ca is None:
            return found
        certificate, key = map(str, self.config.signing_ca)
        return {**found, "cluster_signing_cert_file": certificate, "cluster_signing_key_file": key}

    def _controller_client(self, name: str) -> Client:
        """Of a controller, with that one's rights; with "" that of the caches, which all share."""
        from sampan.controllers.identities import MANAGER, NAMESPACE, account_of
        from sampan.controllers.manager import COMPONENT

        user = account(NAMESPACE, account_of(name)) if name else User(MANAGER, groups=(AUTHENTICATED,))
        transport = self.transport.acting_as(user)
        return Client(transport=transport, clock=self.clock, component=COMPONENT)

    async def _run_nodes(self, running: AsyncExitStack) -> None:
        """The nodes that there are to be at first are waited for; without any, nobody waits for the code either."""
        self.server.serve_metrics()
        activity, begun = Activity(), asyncio.Event()
        self._tell_clock(running, activity.idle)
        await running.enter_async_context(_beside(self._run_fleet(activity, begun)))
        if self.config.nodes.real_count:
            await self._run_real_nodes(running)
        if self.config.nodes.hollow_count:
            await begun.wait()
            from sampan.cli.nodes import start_nodes

            assert self.fleet is not None
            await start_nodes(self.fleet, self.config.nodes)

    async def _run_fleet(self, activity: Activity, begun: asyncio.Event) -> None:
        with activity:
            module = await asyncio.to_thread(import_module, "sampan.cli.nodes")
        self.fleet = module.fleet_of(self.config.nodes, transport=self.transport, clock=self.clock, activity=activity)
        begun.set()
        await self.fleet.run()

    async def _run_real_nodes(self, running: AsyncExitStack) -> None:
        """They are waited for."""
        from sampan.cli.nodes import FLEET, node_user

        module = await asyncio.to_thread(import_module, "sampan.cli.real_nodes")
        activity = Activity()
        self._tell_clock(running, activity.idle)

        def client_of(user: User) -> Client:
            return Client(transport=self.transport.acting_as(user), clock=self.clock, component=KUBELET)

        self.real_nodes = module.RealNodes(
            config=self.config.nodes,
            client=client_of(FLEET),
            client_for=lambda name: client_of(node_user(name)),
            clock=self.clock,
            activity=activity,
            recorder=self.server.recorder,
            claims=self._claims,
            make_ports=self._make_ports(),
        )
        await running.enter_async_context(_beside(self.real_nodes.run()))
        await self.real_nodes.ready()

    def _make_ports(self) -> MakePorts | None:
        if self.config.signing_ca is None or self.config.server.tls is None:
            return None
        from sampan.cli.kubelet_ports import cluster_ports

        return cluster_ports(
            self.config.signing_ca,
            self.config.server.tls.client_ca,
            self.config.renewals,
            address=self.config.kubelet_address,
        )

    async def _run_scheduler(self, running: AsyncExitStack) -> None:
        """Its code is loaded beside the loop, so that nobody waits for it."""
        activity = Activity()
        self._tell_clock(running, activity.idle)
        await running.enter_async_context(_beside(self._schedule(activity)))
        self.server.registry.components["scheduler"] = _is_running

    async def _schedule(self, activity: Activity) -> None:
        with activity:
            module, measuring, serving = await asyncio.to_thread(_scheduler_modules)
        transport = self.transport.acting_as(User(_SCHEDULER_USER, groups=(AUTHENTICATED,)))
        client = Client(transport=transport, clock=self.clock, component=module.COMPONENT)
        metrics = measuring.SchedulerMetrics(self.server.metrics)
        desk = serving.Desk(lambda: self.scheduler, self.clock.now)
        self.server.debug |= dict.fromkeys((serving.WHY, serving.DECISIONS), functools.partial(_told, desk))

        async def term() -> None:
            self.scheduler = module.Scheduler(
                client=client,
                clock=self.clock,
                config=await self._scheduler_config(),
                recorder=self.server.recorder,
                activity=activity,
                metrics=metrics,
                host=gethostname(),
            )
            try:
                await self.scheduler.run()
            finally:
                self.scheduler = metrics.scheduler = None

        await self.terms.run(module.COMPONENT, client, term)

    async def _scheduler_config(self) -> SchedulerConfig | None:
        """A policy in a ConfigMap can only be made once the server runs: it is waited for. It is read with the rights
        of who started the cluster and named it, as the scheduler's own have no such rule."""
        settings = self.config.scheduler
        while settings.policy_map is not None:
            try:
                return await policy_of_map(self.client("up"), settings.policy_map)
            except (errors.ApiError, CliError) as error:
                log.warning("the scheduler is not running: %s", error)
                await self.clock.sleep(_POLICY_RETRY_S)
        return settings.config

    def _tell_clock(self, running: AsyncExitStack, idle: Idle) -> None:
        """A virtual clock does not move on while something is under way."""
        if isinstance(self.clock, VirtualClock):
            running.callback(self.clock.on_idle(idle))


def _scheduler_modules() -> list[Any]:
    """In a thread, with what the server needs for those whom the scheduler is the first to ask for."""
    import_module("sampan.scheduler.registry").preload()
    for plural in ("pods", "nodes", "replicationcontrollers", "replicasets", "persistentvolumes", "resourceclaims"):
        import_module(f"sampan.apiserver.registry.kinds.{plural}")
    return [import_module(f"sampan.scheduler.{name}") for name in ("scheduler", "metrics", "explain.serving")]


async def _told(desk: Any, call: Call) -> Answer:
    """What the scheduler says about a pod, as an answer of the API server."""
    from sampan.apiserver.results import BytesAnswer

    found = await desk.answer(call.method, call.path.rstrip("/"), dict(call.query.pairs()), call.body)
    return BytesAnswer(found.body, found.content_type, found.code)


def _with_pod_ranges(config: ClusterConfig, claims: Claims) -> ClusterConfig:
    if not config.nodes.real_count:
        return config
    from sampan.controllers.manager import selected

    has_ipam = CONTROLLERS in config.components and "node-ipam-controller" in selected(config.controllers)
    nodes, settings = with_pod_ranges(config.nodes, config.controller_settings, has_ipam, claims)
    return replace(config, nodes=nodes, controller_settings=settings)


async def _is_running() -> None:
    """Of a component in this process, which ends with it: that somebody can ask is the answer."""


async def default_account(client: Client, namespace: str) -> None:
    """Wait until the namespace has its service account; before that no pod can be created there."""
    from sampan.api.types.core_v1 import ServiceAccount

    chosen = Selection(namespace=namespace, fields="metadata.name=default")
    try:
        async with (
            asyncio.timeout(_ACCOUNT_PATIENCE_S),
            client.of(ServiceAccount).watch(chosen, initial_events=True) as events,
        ):
            async for batch in events:
                if any(event.type == ADDED for event in batch):
                    return
    except TimeoutError:
        log.warning("namespace %s has no default service account yet: pods cannot be created in it", namespace)


@asynccontextmanager
async def _beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Runs while the block lasts; its failure ends the block. A failure of the block is not made a group of one."""
    fault: Exception | None = None
    async with asyncio.TaskGroup() as group:
        task = group.create_task(work)
        try:
            yield
        except Exception as found:
            fault = found
        task.cancel()
    if fault is not None:
        raise fault
