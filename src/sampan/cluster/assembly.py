"""A cluster assembled from its components in one process, as `sampan up` and the test library run it."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from importlib import import_module
from os import geteuid
from socket import gethostname
from typing import TYPE_CHECKING, Any

from sampan.apiserver.registry.kinds import find_behavior
from sampan.apiserver.request.call import AUTHENTICATED, UserInfo, service_account_user
from sampan.apiserver.server import ApiServer
from sampan.apiserver.services import ProcessComponents
from sampan.cluster.cluster_config import (
    CONTROLLERS,
    DNS,
    KUBELET,
    PROXY,
    SCHEDULER,
    ClusterConfig,
    cluster_dns_addresses,
    resolve_config,
)
from sampan.cluster.errors import ClusterError
from sampan.cluster.leadership import Leadership
from sampan.cluster.machine.host_locks import HostLocks
from sampan.cluster.nodes.local_kubelets import LocalKubelets
from sampan.cluster.nodes.node_summary import settle_hollow_taints
from sampan.cluster.scheduler_settings import policy_of_map
from sampan.cluster.store_dump import PATH as STORE_DUMP_PATH
from sampan.cluster.store_dump import StoreDump
from sampan.host.activity import Activity
from sampan.host.clock import Clock, Idle, RealClock, VirtualClock
from sampan.machinery import errors
from sampan.machinery.client import ADDED, Client, Selection
from sampan.machinery.client.request_metrics import ClientRequestMetrics
from sampan.machinery.control_loop.supervision import (
    NoSupervision,
    Supervision,
    Supervisor,
    Work,
    describe_failure,
)

if TYPE_CHECKING:
    from sampan.apiserver.request.call import Call
    from sampan.apiserver.response.responses import ApiResponse
    from sampan.cluster.nodes.kubelet_ports import MakePorts
    from sampan.cluster.nodes.node_network import NodeNetworks
    from sampan.cluster.nodes.real_nodes import RealNodes
    from sampan.controllers.manager import ControllerManager
    from sampan.kubelet.fleet import Fleet
    from sampan.machinery.informer import InformerFactory
    from sampan.network.mesh.agent import MeshAgent
    from sampan.network.nodes import NodeAttachments
    from sampan.scheduler.config import SchedulerConfig
    from sampan.scheduler.explain.explain_endpoint import ExplainEndpoint
    from sampan.scheduler.scheduler import Scheduler

log = logging.getLogger(__name__)

_ACCOUNT_TIMEOUT_S = 10
_SCHEDULER = "kube-scheduler"
_SCHEDULER_USER = f"system:{_SCHEDULER}"
_NODES, _HOLLOW_NODES = "nodes", "hollow-nodes"

_SCHEDULED_KINDS = (
    *(("", plural) for plural in ("pods", "nodes", "replicationcontrollers", "persistentvolumes")),
    ("apps", "replicasets"),
    ("resource.k8s.io", "resourceclaims"),
)
"""Kinds that the scheduler lists."""
_POLICY_RETRY_S = 2.0
_SHARED_STORE_SETTLE_S = 5.0
"""How long another API server on the same etcd may take to observe the deletion of a namespace."""


class ComponentFailed(Exception):
    """A component of this process has failed and will be restarted."""


class Assembly:
    """`async with Assembly(config=…, clock=…) as cluster:` runs the components for the duration of the block.

    The API server and the store end the block if they fail. Other components are restarted, and the API server reports
    them meanwhile, unless the configuration says otherwise.

    If the service account controller runs, the default service account exists when the block is entered, so that pods
    can be created at once.
    """

    def __init__(
        self, *, config: ClusterConfig, clock: Clock, on_step: Callable[[str], None] = lambda step: None
    ) -> None:
        """`on_step` is called with the name of each step of the start when it begins."""
        self._locks, self._on_step = HostLocks(), on_step
        self.config, self.clock = resolve_config(config, self._locks), clock
        self.backend = config.store.open(clock)
        self._supervisor = Supervisor(clock=clock)
        self._supervision: Supervision = self._supervisor if config.restarts_components else NoSupervision()
        self._process = ProcessComponents(
            find_kubelet=LocalKubelets(clock=clock, fleet=lambda: self.fleet, real=lambda: self.real_nodes),
            failures=self._supervisor.failures,
        )
        self.server = ApiServer(config=self.config.server, backend=self.backend, clock=clock, process=self._process)
        self.transport = self.server.loopback()
        self._requests = ClientRequestMetrics()
        """The metrics of the requests of all components whose metrics are among those of the API server."""
        self._requests.export(self.server.metrics)
        self.fleet: Fleet | None = None
        """The hollow nodes; None until their code is loaded."""
        self.real_nodes: RealNodes | None = None
        """The real nodes; None until their code is loaded."""
        self.scheduler: Scheduler | None = None
        """The scheduler; None until its code is loaded, and while it is not the leader."""
        self.controllers: ControllerManager | None = None
        """The controllers; None while they are not the leader."""
        self.leadership = Leadership(config=config.leader_election, clock=clock, metrics=self.server.metrics)
        self._cloud: dict[str, Any] = {}
        """The provider of load balancers as a field of ControllerConfig; empty if there is none."""
        self._running = AsyncExitStack()

    async def __aenter__(self) -> Assembly:
        async with AsyncExitStack() as running:
            running.callback(self._locks.close)
            self._on_step("store")
            await running.enter_async_context(self.backend)
            self._on_step("API server")
            await running.enter_async_context(self.server)
            if self.config.server.has_dashboard and self.server.secure_port:
                from sampan.cluster.dashboard import serve_dashboard

                serve_dashboard(self.server, self.config.dashboard)
            await running.enter_async_context(
                self._in_background("certificate-renewal", lambda: self.config.renewals.run(RealClock()))
            )
            self._process.debug.add(STORE_DUMP_PATH, StoreDump(self.backend).handle)
            await self._make_roles()
            if addresses := cluster_dns_addresses(self.config):
                from sampan.network.dns.publication import ensure_dns_service

                await ensure_dns_service(self.client("up"), addresses)
            if self.config.ingress is not None:
                from sampan.network.ingress.publication import ensure_ingress_objects

                await ensure_ingress_objects(self.client("up"), self.config.ingress)
            self._hold_clock_while_busy(running, self.transport.activity.idle)
            self._hold_clock_while_busy(running, self.backend.idle)
            if KUBELET in self.config.components:
                await settle_hollow_taints(self.client("up"), self.config.nodes)
            await self._run_load_balancers(running)
            if CONTROLLERS in self.config.components:
                self._on_step("controllers")
                await self._run_controllers(running)
            if SCHEDULER in self.config.components:
                self._on_step("scheduler")
                await self._run_scheduler(running)
            if KUBELET in self.config.components:
                self._on_step("nodes")
                await self._run_nodes(running)
            self._running = running.pop_all()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._running.aclose()

    async def _make_roles(self) -> None:
        if self.config.server.has_system_objects:
            return
        from sampan.cluster.component_roles import ensure_component_roles

        await ensure_component_roles(self.client("up"))

    def client(self, component: str) -> Client:
        """Return a client that calls the API server of this process directly."""
        return Client(transport=self.transport, clock=self.clock, component=component, metrics=self._requests)

    def has_controller(self, name: str) -> bool:
        from sampan.controllers.manager import select_controllers

        return CONTROLLERS in self.config.components and name in select_controllers(self.config.controllers)

    async def _run_load_balancers(self, running: AsyncExitStack) -> None:
        """Provide load balancers for services, if the cluster has real nodes with service proxies."""
        if not {CONTROLLERS, KUBELET, PROXY} <= set(self.config.components) or not self.config.nodes.real_count:
            return
        from sampan.cluster.nodes.load_balancers import ClusterLoadBalancers
        from sampan.cluster.nodes.node_network import PROXY_USER

        activity = Activity()
        self._hold_clock_while_busy(running, activity.idle)
        transport = self.transport.as_user(UserInfo(PROXY_USER, groups=(AUTHENTICATED,)))
        client = Client(transport=transport, clock=self.clock, component="load-balancer", metrics=self._requests)
        balancers = ClusterLoadBalancers(client=client, nodes=self.config.nodes, clock=self.clock, activity=activity)
        self._cloud = {"cloud": balancers.provider}
        await running.enter_async_context(self._in_background("load-balancer", balancers.run))

    async def _run_controllers(self, running: AsyncExitStack) -> None:
        from sampan.cluster import controller_queues
        from sampan.controllers.manager import COMPONENT, select_controllers
        from sampan.machinery.control_loop.controller import export_controllers

        select_controllers(self.config.controllers)  # raises UnknownController before anything is started
        export_controllers(self.server.metrics, lambda: self.controllers.runners if self.controllers else ())
        self._process.debug.add(controller_queues.PATH, controller_queues.handler(lambda: self.controllers))
        self._hold_clock_while_busy(running, self._controllers_idle)
        client = self._controller_client("")

        async def lead() -> None:
            await self.leadership.run(COMPONENT, client, self._run_controller_term)

        await running.enter_async_context(self._in_background(COMPONENT, lead))
        self._process.checks.add("controller-manager", self._probe_of(COMPONENT))
        if self.has_controller("serviceaccount-controller"):
            await wait_for_default_account(self.client("up"), "default")
        if self.config.has_default_storage_class:
            from sampan.cluster.default_storage_class import ensure_default_storage_class

            await ensure_default_storage_class(self.client("up"))

    def _in_background(self, component: str, work: Work) -> AbstractAsyncContextManager[None]:
        """Run a component under supervision for the duration of the block."""
        return _in_background(component, self._supervision.run(component, work))

    def _probe_of(self, component: str) -> Callable[[], Awaitable[None]]:
        """Return the health check of a component of this process. It fails while the component is failed; otherwise a
        response proves that the process, and with it the component, runs."""

        async def probe() -> None:
            if reason := self._supervisor.failures().get(component):
                raise ComponentFailed(reason)

        return probe

    async def _run_controller_term(self) -> None:
        """Run the controllers for one term of leadership."""
        self.controllers = self._make_controllers()
        try:
            await self.controllers.run()
        finally:
            self.controllers = None

    async def _controllers_idle(self) -> bool:
        return await self.controllers.activity.idle() if self.controllers is not None else False

    def _make_controllers(self) -> ControllerManager:
        from sampan.controllers.descriptor import ControllerConfig
        from sampan.controllers.manager import COMPONENT, ControllerManager

        return ControllerManager(
            client_for=self._controller_client,
            clock=self.clock,
            names=self.config.controllers,
            config=ControllerConfig(
                feature_gates=self.config.server.feature_gates,
                root_ca=self.config.root_ca.decode(),
                serves_storage_migration=any(
                    self.server.scheme.resources("storagemigration.k8s.io", version) for version in ("v1", "v1beta1")
                ),
                namespace_settle_s=_SHARED_STORE_SETTLE_S if self.config.store.etcd_servers else 0,
                **self._signing_files(),
                **{**self._cloud, **self.config.controller_settings},
            ),
            recorder=self.server.recorder,
            supervision=self._supervision.narrow_to(COMPONENT),
        )

    def _signing_files(self) -> dict[str, Any]:
        account_key = self.config.server.service_account_key
        settings = {"service_account_private_key_file": str(account_key) if account_key is not None else ""}
        if self.config.signing_ca is None:
            return settings
        certificate, key = map(str, self.config.signing_ca)
        return {**settings, "cluster_signing_cert_file": certificate, "cluster_signing_key_file": key}

    def _controller_client(self, name: str) -> Client:
        """Return the client of a controller, with the permissions of its service account. An empty name stands for the
        client of the caches that all controllers share."""
        from sampan.controllers.identities import MANAGER, NAMESPACE, account_of
        from sampan.controllers.manager import COMPONENT

        user = service_account_user(NAMESPACE, account_of(name)) if name else UserInfo(MANAGER, groups=(AUTHENTICATED,))
        transport = self.transport.as_user(user)
        return Client(transport=transport, clock=self.clock, component=COMPONENT, metrics=self._requests)

    async def _run_nodes(self, running: AsyncExitStack) -> None:
        """Start the nodes, and wait until the initial ones are Ready. Without initial nodes do not wait for their
        code to load; in a copied store they exist and are Ready, and their kubelets start in the background."""
        self.server.serve_metrics()
        activity, is_created = Activity(), asyncio.Event()
        self._hold_clock_while_busy(running, activity.idle)
        await running.enter_async_context(
            self._in_background(_HOLLOW_NODES, lambda: self._run_fleet(activity, is_created))
        )
        if self.config.nodes.real_count:
            await self._run_real_nodes(running)
        if self.config.nodes.hollow_count and self.config.store.memory is None:
            await is_created.wait()
            from sampan.cluster.nodes.hollow_nodes import wait_for_nodes

            assert self.fleet is not None
            await wait_for_nodes(self.fleet)

    async def _run_fleet(self, activity: Activity, is_created: asyncio.Event) -> None:
        with activity:
            await asyncio.to_thread(import_module, "sampan.cluster.nodes.hollow_nodes")
        from sampan.cluster.nodes.hollow_nodes import make_fleet

        self.fleet = make_fleet(
            self.config.nodes,
            transport=self.transport,
            clock=self.clock,
            activity=activity,
            supervision=self._supervision.narrow_to(_HOLLOW_NODES),
        )
        is_created.set()
        await self.fleet.run()

    async def _run_real_nodes(self, running: AsyncExitStack) -> None:
        """Start the real nodes, and wait until they are ready."""
        await asyncio.to_thread(import_module, "sampan.cluster.nodes.real_nodes")
        from sampan.cluster.nodes.hollow_nodes import FLEET, node_user
        from sampan.cluster.nodes.real_nodes import RealNodes

        activity, is_created = Activity(), asyncio.Event()
        self._hold_clock_while_busy(running, activity.idle)

        def client_of(user: UserInfo) -> Client:
            return Client(transport=self.transport.as_user(user), clock=self.clock, component=KUBELET)

        async def run() -> None:
            self.real_nodes = RealNodes(
                config=self.config.nodes,
                client=client_of(FLEET),
                client_for=lambda name: client_of(node_user(name)),
                clock=self.clock,
                activity=activity,
                recorder=self.server.recorder,
                locks=self._locks,
                attachments=self._make_attachments(),
                networks=self._make_node_networks(activity),
                make_ports=self._make_ports(),
                supervision=self._supervision.narrow_to(_NODES),
            )
            is_created.set()
            await self.real_nodes.run()

        await running.enter_async_context(self._in_background(_NODES, run))
        await self._run_mesh(running, client_of(FLEET))
        await is_created.wait()
        assert self.real_nodes is not None
        await self.real_nodes.ready()
        await running.enter_async_context(self._in_background("removal-of-leftovers", _remove_leftovers))

    def _make_attachments(self) -> NodeAttachments:
        from sampan.kubelet.agent.machine import find_machine_addresses
        from sampan.network.load_balancer.addresses import pool_cidr
        from sampan.network.nodes import HostAttachments, NodeBridge, NodeBridgeConfig

        nodes = self.config.nodes
        assert nodes.root is not None
        if not nodes.node_cidrs:
            return HostAttachments(root=nodes.root, addresses=find_machine_addresses())
        config = NodeBridgeConfig(
            root=nodes.root,
            node_cidrs=nodes.node_cidrs,
            cluster_cidrs=nodes.cluster_cidrs,
            load_balancer_cidrs=[pool_cidr(cidr) for cidr in nodes.node_cidrs],
        )
        return NodeBridge(config=config, clock=self.clock)

    async def _run_mesh(self, running: AsyncExitStack, client: Client) -> None:
        """Connect the nodes of this process with machines that join the cluster. Do nothing without root, as the nodes
        have no network then, or without a CA, as no machine can join then."""
        root, ca = self.config.nodes.root, self.config.root_ca
        if root is None or not ca or not self.config.nodes.has_pod_cidrs or geteuid() != 0:
            return
        from sampan.cluster.machine.machine_mesh import machine_mesh, remove_machine_mesh

        def make() -> MeshAgent:
            return machine_mesh(
                root=root,
                ca=ca,
                backend=self.config.nodes.pod_network,
                cluster_cidrs=self.config.nodes.cluster_cidrs,
                client=client,
                clock=self.clock,
            )

        running.push_async_callback(asyncio.to_thread, remove_machine_mesh, root)
        await running.enter_async_context(self._in_background("mesh-of-nodes", lambda: make().run()))

    def _make_node_networks(self, activity: Activity) -> NodeNetworks:
        from sampan.cluster.nodes.node_network import NodeNetworks
        from sampan.cluster.nodes.node_proxies import NodeProxies

        def make_proxies(client: Client, informers: InformerFactory) -> NodeProxies:
            cidrs = self.config.nodes.cluster_cidrs
            return NodeProxies(
                client=client,
                informers=informers,
                clock=self.clock,
                cluster_cidrs=cidrs,
                locks=self._locks,
                machine=self.config.machine_network,
                recorder=self.server.recorder,
                feature_gates=self.config.server.feature_gates,
            )

        def client_for(user: str) -> Client:
            transport = self.transport.as_user(UserInfo(user, groups=(AUTHENTICATED,)))
            return Client(transport=transport, clock=self.clock, component=user.removeprefix("system:"))

        return NodeNetworks(
            components=self.config.components,
            client_for=client_for,
            clock=self.clock,
            activity=activity,
            has_policies=self.config.nodes.enforces_policies(),
            stops_pods=True,
            make_proxies=make_proxies if PROXY in self.config.components else None,
            dns=self.config.dns if DNS in self.config.components else None,
            ingress=self.config.ingress,
            recorder=self.server.recorder,
            supervision=self._supervisor,
        )

    def _make_ports(self) -> MakePorts | None:
        if self.config.signing_ca is None or self.config.server.tls is None:
            return None
        from sampan.cluster.nodes.kubelet_ports import cluster_ports

        return cluster_ports(
            self.config.signing_ca,
            self.config.server.tls.client_ca,
            self.config.renewals,
            address=self.config.kubelet_address,
        )

    async def _run_scheduler(self, running: AsyncExitStack) -> None:
        """Start the scheduler. Its code is loaded in a thread, so that the start of the cluster does not wait for
        it."""
        activity = Activity()
        self._hold_clock_while_busy(running, activity.idle)
        await running.enter_async_context(_in_background(_SCHEDULER, self._schedule(activity)))
        self._process.checks.add("scheduler", self._probe_of(_SCHEDULER))

    async def _schedule(self, activity: Activity) -> None:
        with activity:
            await asyncio.to_thread(_preload_scheduler)
        from sampan.scheduler.explain.explain_endpoint import DECISIONS, WHY, ExplainEndpoint
        from sampan.scheduler.metrics import SchedulerMetrics
        from sampan.scheduler.scheduler import COMPONENT, make_scheduler

        transport = self.transport.as_user(UserInfo(_SCHEDULER_USER, groups=(AUTHENTICATED,)))
        client = Client(transport=transport, clock=self.clock, component=COMPONENT, metrics=self._requests)
        metrics = SchedulerMetrics(self.server.metrics)
        explain = functools.partial(_explain, ExplainEndpoint(lambda: self.scheduler, self.clock.now))
        for path in (WHY, DECISIONS):
            self._process.debug.add(path, explain)

        async def term() -> None:
            self.scheduler = make_scheduler(
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
                self.scheduler = None

        await self._supervision.run(_SCHEDULER, lambda: self.leadership.run(_SCHEDULER, client, term))

    async def _scheduler_config(self) -> SchedulerConfig:
        """Return the scheduler configuration. If the policy is in a ConfigMap, wait for it, as it can be created only
        after the API server has started. It is read as the user who started the cluster, because the role of the
        scheduler does not permit that."""
        settings, reported = self.config.scheduler, ""
        while settings.policy_map is not None:
            try:
                return await policy_of_map(self.client("up"), settings.policy_map)
            except (errors.ApiError, ClusterError) as error:
                if str(error) != reported:
                    reported = str(error)
                    log.warning("the scheduler is not running: %s", reported)
                await self.clock.sleep(_POLICY_RETRY_S)
        from sampan.scheduler.config import SchedulerConfig

        return replace(settings.config or SchedulerConfig(), feature_gates=self.config.server.feature_gates)

    def _hold_clock_while_busy(self, running: AsyncExitStack, idle: Idle) -> None:
        """Keep a virtual clock from advancing until `idle` reports that a component has nothing to do."""
        if isinstance(self.clock, VirtualClock):
            running.callback(self.clock.on_idle(idle))


def _preload_scheduler() -> None:
    """Import the scheduler, and the kinds that the API server needs for its requests. The call blocks, so run it in a
    thread."""
    from sampan.scheduler.plugins.registry import preload

    preload()
    for group, plural in _SCHEDULED_KINDS:
        find_behavior(group, plural)
    for module in ("scheduler", "metrics", "explain.explain_endpoint"):
        import_module(f"sampan.scheduler.{module}")


async def _explain(endpoint: ExplainEndpoint, call: Call) -> ApiResponse:
    """Return the scheduler's response about a pod as a response of the API server."""
    from sampan.apiserver.response.responses import RawResponse

    response = await endpoint.handle(call.method, call.path.rstrip("/"), dict(call.query.pairs()), call.body)
    return RawResponse(response.body, response.content_type, response.code)


async def _remove_leftovers() -> None:
    """Remove the bridges and rules on this machine of clusters whose data directory is gone."""
    from sampan.network.leftovers import remove_leftovers

    await asyncio.to_thread(remove_leftovers)


async def wait_for_default_account(client: Client, namespace: str) -> None:
    """Wait for the default service account of a namespace; pods cannot be created there without it."""
    from sampan.api.types.core_v1 import ServiceAccount

    chosen = Selection(namespace=namespace, fields="metadata.name=default")
    try:
        async with (
            asyncio.timeout(_ACCOUNT_TIMEOUT_S),
            client.for_kind(ServiceAccount).watch(chosen, initial_events=True) as events,
        ):
            async for batch in events:
                if any(event.type == ADDED for event in batch):
                    return
    except TimeoutError:
        log.warning("namespace %s has no default service account yet: pods cannot be created in it", namespace)


@asynccontextmanager
async def _in_background(component: str, work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run a coroutine for the duration of the block. If it fails, the block is cancelled. An exception of the block is
    raised as it is, without an exception group."""
    failure: Exception | None = None
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(_run_component(component, work))
            try:
                yield
            except Exception as error:
                failure = error
            task.cancel()
    finally:
        work.close()  # the block may have ended before the task started the coroutine
    if failure is not None:
        raise failure


async def _run_component(component: str, work: Coroutine[Any, Any, None]) -> None:
    """Run a component. If it fails, its name is logged and added to the exception as a note."""
    try:
        await work
    except Exception as error:
        log.error("component %s failed, the cluster stops: %s", component, describe_failure(error))
        error.add_note(f"in component {component}")
        raise
