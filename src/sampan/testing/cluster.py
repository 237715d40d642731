"""A whole cluster inside a test: `with Cluster() as cluster:`, or `async with` in a test that has an event loop."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sampan.api.types.core_v1 import Node
from sampan.apiserver.config.server_config import ServerConfig, TlsFiles
from sampan.apiserver.request.call import AUTHENTICATED, MASTERS, UserInfo
from sampan.cluster import kubeconfig
from sampan.cluster.assembly import Assembly, wait_for_default_account
from sampan.cluster.cluster_config import ClusterConfig, StoreConfig
from sampan.cluster.leadership import LeadershipConfig
from sampan.cluster.nodes.nodes_config import NodesConfig
from sampan.cluster.pki import ACCOUNTS, ADMIN, CA, SERVER, Pki, with_front_proxy
from sampan.cluster.scheduler_settings import SchedulerSettings
from sampan.host.clock import Clock, VirtualClock
from sampan.host.exception_groups import leaf_exceptions
from sampan.kubelet.hollow_nodes import OFF, POWER
from sampan.machinery.client import Client, PatchType
from sampan.machinery.hollow import is_hollow_node
from sampan.runtimes.choice import choose_runtime
from sampan.storage.memory import MemoryBackend, MemoryContent
from sampan.testing import arguments
from sampan.testing.arguments import DEFAULT_LEVEL, level_named
from sampan.testing.cluster_dump import LogTail
from sampan.testing.cluster_operations import ClusterOperations
from sampan.testing.errors import UnsupportedByCluster
from sampan.testing.faults import Fault, FaultEffect, FaultInjector, FaultRule
from sampan.testing.keys import KEYS
from sampan.testing.loop_thread import LoopThread
from sampan.testing.temporary_directory import TemporaryDirectory

__tracebackhide__ = True  # pytest leaves the frames of this module out of tracebacks
if TYPE_CHECKING:
    from sampan.scheduler.config import SchedulerConfig
    from sampan.testing.cluster_dump import ClusterDump

T = TypeVar("T")

_NAME = "sampan-test"
_ADMIN_USER = UserInfo("kubernetes-admin", groups=(MASTERS, AUTHENTICATED))
"""The user of the administrator's certificate, as whom the in-process client of the tests works, too."""


class Cluster(ClusterOperations):
    """A cluster to test against, in this process, on a free port of the loopback address.

    `with Cluster() as cluster:` runs it in a thread with an event loop of its own; `cluster.run` runs coroutines there.
    `async with Cluster() as cluster:` runs it in the caller's loop, where coroutines are simply awaited.

    `url` and `kubeconfig` are for clients of any kind, `client` is Sampan's own. A cluster can be entered only once.
    Any number may run at a time; they share nothing but the CA. On disk there is only a temporary directory with keys
    and kubeconfigs, which is removed at the end of the block and also when the process is killed.

    `level` says how much runs: "api", "controllers" (the default), "nodes" or "containers"; `components`, `nodes` and
    `runtime` override single parts of it. `controllers` names the controllers; False stands for none.

    `store` is "memory", "sqlite" (a file that is removed with the cluster), the path of a SQLite file, or the URLs of
    etcd, separated by commas. `nodes` is the number of nodes, named node-0 and so on. They are hollow, and the
    behavior of their pods is set by annotations or the file `hollow_stages` (docs/nodes.md), unless `runtime` names a
    runtime for real pods: "oci" needs root and crun or runc. `kubernetes_version` is the version of Kubernetes as which
    the cluster behaves, such as "1.36"; `runtime_config` and `feature_gates` switch API versions and features on and
    off, as the flags of those names do. `scheduler` configures profiles and plugins
    (docs/scheduler.md); with `leader_election` the scheduler and the controllers work only while they hold a lease.
    With `clock="virtual"` object time stands still until `cluster.advance(minutes=1)`.
    """

    def __init__(
        self,
        *,
        level: str = DEFAULT_LEVEL,
        components: Sequence[str] | None = None,
        controllers: Sequence[str] | bool = True,
        store: str | Path | StoreConfig = "memory",
        insecure: bool = False,
        runtime_config: Mapping[str, bool] | None = None,
        kubernetes_version: str = "",
        feature_gates: Mapping[str, bool] | None = None,
        clock: Clock | str = "real",
        nodes: int | None = None,
        runtime: str | None = None,
        hollow_stages: Path | None = None,
        scheduler: SchedulerConfig | None = None,
        leader_election: LeadershipConfig | None = None,
    ) -> None:
        """Raise TypeError or ValueError with the name of an invalid argument, or StageError for an error in
        `hollow_stages`."""
        preset = level_named(level)
        self._components = arguments.check_components(preset.components if components is None else components)
        self._controllers = arguments.check_controllers(controllers)
        self._store, self._insecure = arguments.check_store(store), arguments.check_switch("insecure", insecure)
        self._feature_gates = arguments.check_feature_gates(kubernetes_version, feature_gates)
        self._runtime_config = arguments.check_runtime_config(runtime_config, self._feature_gates)
        self._nodes = NodesConfig(
            count=arguments.check_nodes(preset.nodes if nodes is None else nodes, self._components),
            runtime=arguments.check_runtime(preset.runtime if runtime is None else runtime),
            stages=arguments.check_hollow_stages(hollow_stages),
        )
        arguments.check_scheduler(scheduler)
        arguments.check_leader_election(leader_election)
        self._scheduler, self._leader_election = SchedulerSettings(config=scheduler), leader_election
        self.clock: Clock = arguments.check_clock(clock)
        self._thread: LoopThread | None = None
        self._assembly: Assembly | None = None
        self._directory: TemporaryDirectory | None = None
        self._faults: FaultInjector | None = None
        self._log_tail = LogTail()
        self._running = AsyncExitStack()

    def __enter__(self) -> Cluster:
        self._thread = LoopThread("sampan cluster")
        self._thread.start(self._serve())
        return self

    def __exit__(self, *exc: object) -> None:
        if self._thread is not None:
            self._thread.stop()

    async def __aenter__(self) -> Cluster:
        async with AsyncExitStack() as running:
            await running.enter_async_context(self._serve())
            self._running = running.pop_all()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._running.aclose()

    # -- forks -------------------------------------------------------------------------------------------------------

    def fork(self) -> Cluster:
        """Return another cluster that starts with the objects of this one, for `with cluster.fork() as fork:`.

        The fork has the same objects with the same UIDs and resource versions, the same history for watches, the same
        time and the same arguments; from then on both are independent. Its controllers and nodes are restarted: work
        queues, backoff and injected faults are not copied. Raise UnsupportedByCluster for a cluster whose store is not
        in memory, or with real nodes: their files and containers cannot be shared.
        """
        if self._nodes.real_count:
            raise UnsupportedByCluster("a cluster with real nodes cannot be forked: its containers exist only once")
        backend = self.assembly.backend
        if not isinstance(backend, MemoryBackend):
            raise UnsupportedByCluster('only a cluster with store="memory" can be forked')
        fork = copy(self)
        fork.__dict__.pop("_objects", None)
        fork._assembly = fork._directory = fork._faults = fork._thread = None
        fork._log_tail, fork._running = LogTail(), AsyncExitStack()
        contents: list[MemoryContent] = []
        clocks: list[Clock] = []

        def take_state() -> None:
            contents.append(backend.content())
            clocks.append(self.clock.fork() if isinstance(self.clock, VirtualClock) else self.clock)

        self._call_on_loop(take_state)
        fork.clock, fork._store = clocks[0], StoreConfig(memory=contents[0])
        return fork

    # -- faults ------------------------------------------------------------------------------------------------------

    def fault(
        self,
        *,
        error: int = 0,
        message: str = "",
        retry_after_s: int = 0,
        latency_s: float = 0.0,
        watch_drop: bool = False,
        watch_drop_after_s: float = 0.0,
        is_expired: bool = False,
        verb: str = "*",
        resource: str = "*",
        subresource: str | None = None,
        namespace: str = "*",
        name: str = "*",
        user: str = "",
        count: int | None = None,
        probability: float = 1.0,
        seed: int = 0,
    ) -> Fault:
        """Return a fault that is active for the duration of a `with` block.

        The effect is an `error` (an HTTP status, with `retry_after_s`), a `latency_s` or a `watch_drop`: open watches
        end at once, new ones after `watch_drop_after_s`; with `is_expired` they end with 410. The other arguments
        select the requests (`sampan.testing.faults.FaultRule`).
        """
        effect = FaultEffect(
            error=error,
            message=message,
            retry_after_s=retry_after_s,
            latency_s=latency_s,
            watch_drop_s=watch_drop_after_s if watch_drop else None,
            is_expired=is_expired,
        )
        rule = FaultRule(
            verb="watch" if watch_drop else verb,
            resource=resource,
            subresource=subresource,
            namespace=namespace,
            name=name,
            user=user,
            count=count,
            probability=probability,
            seed=seed,
        )
        if self._faults is None:
            raise RuntimeError("the cluster is not running")
        return self._faults.make_fault(rule, effect)

    @contextmanager
    def node_down(self, name: str) -> Iterator[None]:
        """Switch a hollow node off for the duration of a block: its kubelet stops renewing its lease, and its pods stop
        as they would with the machine."""
        self.run(self._switch_node(name, is_on=False))
        try:
            yield
        finally:
            self.run(self._switch_node(name, is_on=True))

    @asynccontextmanager
    async def async_node_down(self, name: str) -> AsyncIterator[None]:
        """Switch a hollow node off for the duration of a block, as `node_down` does."""
        await self._switch_node(name, is_on=False)
        try:
            yield
        finally:
            await self._switch_node(name, is_on=True)

    async def _switch_node(self, name: str, *, is_on: bool) -> None:
        node = await self.client.for_kind(Node).get(name)
        if not is_hollow_node(node):
            raise UnsupportedByCluster(f"node {name} is not hollow: only hollow nodes can be switched off")
        patch = {"metadata": {"annotations": {POWER: None if is_on else OFF}}}
        await self.client.for_kind(Node).patch(name, patch, type=PatchType.MERGE)

    # -- for clients of any kind -------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The HTTPS URL of the API server."""
        return f"https://127.0.0.1:{self.assembly.server.secure_port}"

    @property
    def insecure_url(self) -> str:
        """The plain HTTP URL, without authentication and authorization; only with `insecure=True`."""
        if not self._insecure:
            raise RuntimeError("the cluster has no plain HTTP port: Cluster(insecure=True) opens one")
        return f"http://127.0.0.1:{self.assembly.server.insecure_port}"

    @property
    def kubeconfig(self) -> Path:
        """The path of the administrator's kubeconfig file."""
        return self._write_kubeconfig(self._home / "kubeconfig")

    def kubeconfig_for(self, namespace: str) -> Path:
        """Return the path of a kubeconfig file with this namespace."""
        return self._write_kubeconfig(self._home / f"kubeconfig-{namespace}", namespace)

    @property
    def ca(self) -> Path:
        """The path of the CA certificate that verifies `url`."""
        return self._pki.certificate(CA)

    @property
    def client_certificate(self) -> tuple[Path, Path]:
        """The paths of the administrator's certificate and key, for clients that do not read kubeconfigs."""
        return self._pki.certificate(ADMIN), self._pki.key(ADMIN)

    # -- Sampan's own client -----------------------------------------------------------------------------------------

    @property
    def client(self) -> Client:
        """An in-process client of the administrator; its coroutines must run on the cluster's loop."""
        transport = self.assembly.transport.as_user(_ADMIN_USER)
        return Client(transport=transport, clock=self.clock, component="test")

    @property
    def assembly(self) -> Assembly:
        if self._assembly is None:
            raise RuntimeError("the cluster is not running")
        return self._assembly

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float = 60) -> T:
        """Run a coroutine on the cluster's loop and return its result. Any thread but the loop's own may call this."""
        if self._thread is None:
            if asyncio.iscoroutine(work):
                work.close()
            if self._directory is None:
                raise RuntimeError("the cluster is not running yet: enter it with `with Cluster() as cluster:`")
            raise RuntimeError("there is no thread to run this: await it instead, or enter the cluster with `with`")
        if not asyncio.iscoroutine(work):
            raise TypeError(f"work: must be a coroutine, not {type(work).__name__}")
        return self._thread.run(work, timeout_s)

    def _call_on_loop(self, function: Callable[[], None]) -> None:
        """Call a function on the loop of the cluster, and return when it is done."""
        if self._thread is None or self._thread.is_current():
            function()
            return

        async def call() -> None:
            function()

        self._thread.run(call(), timeout_s=60)

    # -- namespaces --------------------------------------------------------------------------------------------------

    async def _wait_for_accounts(self, namespace: str) -> None:
        if self.assembly.has_controller("serviceaccount-controller"):
            await wait_for_default_account(self.client, namespace)

    def warm_up(self) -> None:
        """Trigger what is slow only the first time: the first namespace deletion loads the code of all kinds."""
        if self.assembly.has_controller("namespace-controller"):
            with self.namespace("first") as name:
                pass
            self.wait_for(f"namespace/{name}", "delete")

    # -- internals ---------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _serve(self) -> AsyncIterator[None]:
        if self._directory is not None:
            raise RuntimeError("a cluster is entered once")
        self._directory = TemporaryDirectory(f"{_NAME}-")
        try:
            if self._nodes.real_count:
                # raises NoRuntime if the machine cannot run such pods
                choice = await choose_runtime(self._nodes.runtime)
                self._nodes = replace(self._nodes, runtime=choice.runtime, endpoint=choice.endpoint)
            pki = KEYS.write(self._home / "pki")
            assembly = Assembly(config=self._config(pki), clock=self.clock)
            server = assembly.server
            self._faults = FaultInjector(pipeline=server.pipeline, scheme=server.scheme, on_loop=self._call_on_loop)
            with self._log_tail:
                async with assembly as self._assembly:
                    yield
        except BaseExceptionGroup as group:
            raise _simplify(group) from None
        finally:
            self._assembly = None
            self._directory.remove()

    def _config(self, pki: Pki) -> ClusterConfig:
        tls = TlsFiles(certificate=pki.certificate(SERVER), key=pki.key(SERVER), client_ca=pki.certificate(CA))
        server = ServerConfig(
            bind_address="127.0.0.1",
            any_secure_port=True,
            any_insecure_port=self._insecure,
            tls=tls,
            runtime_config=self._runtime_config,
            feature_gates=self._feature_gates,
            service_account_key=pki.key(ACCOUNTS),
            has_system_objects=self._is_fork,
            service_allocation_seed=0,
        )
        return ClusterConfig(
            server=with_front_proxy(server, pki),
            store=self._store_config(),
            components=self._components,
            controller_settings={"local_volume_root": str(self._home / "volumes")},
            has_default_storage_class=bool(self._nodes.real_count or self._nodes.hollow_count),
            controllers=self._controllers,
            root_ca=pki.certificate(CA).read_bytes(),
            signing_ca=(pki.certificate(CA), pki.key(CA)),
            scheduler=self._scheduler,
            leader_election=self._leader_election,
            restarts_components=False,
            nodes=replace(self._nodes, root=self._home / "nodes", images=self._home / "images"),
        )

    @property
    def _is_fork(self) -> bool:
        return isinstance(self._store, StoreConfig) and self._store.memory is not None

    def _make_dump(self) -> ClusterDump:
        from sampan.testing.cluster_dump import ClusterDump

        recorder = self.assembly.server.recorder
        return ClusterDump(objects=self._objects, recorder=recorder, log_lines=self._log_tail.lines())

    def _store_config(self) -> StoreConfig:
        store = self._store
        if isinstance(store, StoreConfig):
            return store
        if store == "memory":
            return StoreConfig()
        if isinstance(store, str) and "://" in store:
            return StoreConfig(etcd_servers=store.split(","))
        return StoreConfig(sqlite=self._home / "state.db" if store == "sqlite" else Path(store))

    def _write_kubeconfig(self, path: Path, namespace: str = "") -> Path:
        """Write a kubeconfig file unless it exists, and return its path."""
        if path.exists():
            return path
        pki = self._pki
        config = kubeconfig.admin_config(
            name=_NAME,
            url=self.url,
            ca=pki.certificate(CA).read_bytes(),
            certificate=pki.certificate(ADMIN).read_bytes(),
            key=pki.key(ADMIN).read_bytes(),
        )
        if namespace:
            config["contexts"][0]["context"]["namespace"] = namespace
        kubeconfig.write(path, config)
        return path

    @property
    def _pki(self) -> Pki:
        return Pki(self._home / "pki")

    @property
    def _home(self) -> Path:
        if self._directory is None:
            raise RuntimeError("the cluster is not running")
        return self._directory.path


def _simplify(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the only exception in nested groups; for several, an error that lists them, with the tracebacks as its
    note."""
    errors = list(leaf_exceptions(group))
    if len(errors) == 1 or not isinstance(group, ExceptionGroup):
        return errors[0] if len(errors) == 1 else group
    listed = "; ".join(dict.fromkeys(f"{type(error).__name__}: {error}" for error in errors))
    error = RuntimeError(f"the cluster has failed with {len(errors)} errors: {listed}")
    error.add_note("".join(traceback.format_exception(group)))
    return error
