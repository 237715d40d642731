"""A whole cluster inside a test: `with Cluster() as cluster:`, or `async with` in a test that has an event loop."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sampan.apiserver.config.server_config import ServerConfig, TlsFiles
from sampan.cluster import kubeconfig
from sampan.cluster.assembly import COMPONENTS, Assembly, ClusterConfig, StoreConfig
from sampan.cluster.errors import leaves
from sampan.cluster.leadership import LeadershipConfig
from sampan.cluster.nodes_config import NodesConfig
from sampan.cluster.pki import ACCOUNTS, ADMIN, CA, SERVER, Pki, with_front_proxy
from sampan.cluster.scheduler_settings import SchedulerSettings
from sampan.machinery.client import Client
from sampan.machinery.clock import Clock, RealClock
from sampan.runtimes.choice import choose_runtime
from sampan.runtimes.names import HOLLOW
from sampan.testing import arguments, namespaces
from sampan.testing.keys import KEYS
from sampan.testing.loop_thread import LoopThread
from sampan.testing.temporary_directory import TemporaryDirectory

if TYPE_CHECKING:
    from sampan.scheduler.config import SchedulerConfig

T = TypeVar("T")

_NAME = "sampan-test"


class Cluster:
    """A cluster to test against, in this process, on a free port of the loopback address.

    `with Cluster() as cluster:` runs it in a thread with an event loop of its own; `cluster.run` runs coroutines there.
    `async with Cluster() as cluster:` runs it in the caller's loop, where coroutines are simply awaited.

    `url` and `kubeconfig` are for clients of any kind, `client` is Sampan's own. A cluster can be entered only once.
    Any number may run at a time; they share nothing but the CA. On disk there is only a temporary directory with keys
    and kubeconfigs, which is removed at the end of the block and also when the process is killed.

    `store` is "memory", "sqlite" (a file that is removed with the cluster), the path of a SQLite file, or the URLs of
    etcd, separated by commas. `nodes` is the number of nodes, named node-0 and so on. They are hollow, and the
    behaviour of their pods is set by annotations or the file `hollow_stages` (docs/nodes.md), unless `runtime` names a
    runtime for real pods: "oci" needs root and crun or runc. `scheduler` configures profiles and plug-ins
    (docs/scheduler.md); with `leader_election` the scheduler and the controllers work only while they hold a lease.
    With a `VirtualClock` object time stands still until `cluster.run(clock.advance(60))`.
    """

    def __init__(
        self,
        *,
        components: Sequence[str] = COMPONENTS,
        controllers: Sequence[str] = ("*",),
        store: str | Path | StoreConfig = "memory",
        insecure: bool = False,
        runtime_config: Mapping[str, bool] | None = None,
        clock: Clock | None = None,
        nodes: int = 0,
        runtime: str = HOLLOW,
        hollow_stages: Path | None = None,
        scheduler: SchedulerConfig | None = None,
        leader_election: LeadershipConfig | None = None,
    ) -> None:
        """Raise TypeError or ValueError with the name of an invalid argument, or StageError for an error in
        `hollow_stages`."""
        self._components = arguments.check_components(components)
        self._controllers = arguments.check_controllers(controllers)
        self._store, self._insecure = arguments.check_store(store), arguments.check_switch("insecure", insecure)
        self._runtime_config = arguments.check_runtime_config(runtime_config)
        self._nodes = NodesConfig(
            count=arguments.check_nodes(nodes, self._components),
            runtime=arguments.check_runtime(runtime),
            stages=arguments.check_hollow_stages(hollow_stages),
        )
        arguments.check_clock(clock)
        arguments.check_scheduler(scheduler)
        arguments.check_leader_election(leader_election)
        self._scheduler, self._leader_election = SchedulerSettings(config=scheduler), leader_election
        self.clock: Clock = clock or RealClock()
        self._thread: LoopThread | None = None
        self._assembly: Assembly | None = None
        self._directory: TemporaryDirectory | None = None
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
        return self._home / "kubeconfig"

    def kubeconfig_for(self, namespace: str) -> Path:
        """Return the path of a kubeconfig file with this namespace."""
        path = self._home / f"kubeconfig-{namespace}"
        if not path.exists():
            self._write_kubeconfig(path, namespace)
        return path

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
        """An in-process client with all permissions; its coroutines must run on the cluster's loop."""
        return self.assembly.client("test")

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

    # -- namespaces --------------------------------------------------------------------------------------------------

    @contextmanager
    def namespace(self, prefix: str = "test") -> Iterator[str]:
        """Create a new namespace for the duration of a block. Its deletion is started at the end and not awaited."""
        name = self.run(namespaces.make(self.assembly, prefix))
        try:
            yield name
        finally:
            self.run(namespaces.start_deletion(self.client, name))

    @asynccontextmanager
    async def async_namespace(self, prefix: str = "test") -> AsyncIterator[str]:
        """Create a new namespace for the duration of a block, in a cluster that was entered with `async with`."""
        name = await namespaces.make(self.assembly, prefix)
        try:
            yield name
        finally:
            await namespaces.start_deletion(self.client, name)

    def warm_up(self) -> None:
        """Trigger what is slow only the first time: the first namespace deletion loads the code of all kinds."""
        if self.assembly.has_controller("namespace-controller"):
            with self.namespace("first") as name:
                pass
            self.run(namespaces.wait_for_deletion(self.client, name))

    # -- internals ---------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _serve(self) -> AsyncIterator[None]:
        if self._directory is not None:
            raise RuntimeError("a cluster is entered once")
        self._directory = TemporaryDirectory(f"{_NAME}-")
        try:
            if self._nodes.real_count:
                choice = await choose_runtime(
                    self._nodes.runtime
                )  # raises an error if the machine cannot run such pods
                self._nodes = replace(self._nodes, endpoint=choice.endpoint)
            pki = KEYS.write(self._home / "pki")
            async with Assembly(config=self._config(pki), clock=self.clock) as self._assembly:
                self._write_kubeconfig(self.kubeconfig)
                yield
        except BaseExceptionGroup as group:
            raise _simplified(group) from None
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
            service_account_key=pki.key(ACCOUNTS),
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
            nodes=replace(self._nodes, root=self._home / "nodes", images=self._home / "images"),
        )

    def _store_config(self) -> StoreConfig:
        store = self._store
        if isinstance(store, StoreConfig):
            return store
        if store == "memory":
            return StoreConfig()
        if isinstance(store, str) and "://" in store:
            return StoreConfig(etcd_servers=store.split(","))
        return StoreConfig(sqlite=self._home / "state.db" if store == "sqlite" else Path(store))

    def _write_kubeconfig(self, path: Path, namespace: str = "") -> None:
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

    @property
    def _pki(self) -> Pki:
        return Pki(self._home / "pki")

    @property
    def _home(self) -> Path:
        if self._directory is None:
            raise RuntimeError("the cluster is not running")
        return self._directory.path


def _simplified(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the only exception in nested groups; for several, an error that lists them, with the tracebacks as its
    note."""
    errors = list(leaves(group))
    if len(errors) == 1 or not isinstance(group, ExceptionGroup):
        return errors[0] if len(errors) == 1 else group
    listed = "; ".join(dict.fromkeys(f"{type(error).__name__}: {error}" for error in errors))
    error = RuntimeError(f"the cluster has failed with {len(errors)} errors: {listed}")
    error.add_note("".join(traceback.format_exception(group)))
    return error
