"""A cluster that runs elsewhere, for the same tests: `with ExternalCluster(Path("kubeconfig")) as cluster:`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import yaml

from sampan.cluster.assembly import wait_for_default_account
from sampan.host.clock import Clock, RealClock
from sampan.machinery.client import Client
from sampan.machinery.client import kubeconfig as kubeconfig_files
from sampan.machinery.pki.private_files import write_private
from sampan.testing.cluster_operations import ClusterOperations
from sampan.testing.errors import UnsupportedByCluster
from sampan.testing.loop_thread import LoopThread
from sampan.testing.temporary_directory import TemporaryDirectory

__tracebackhide__ = True  # pytest leaves the frames of this module out of tracebacks
T = TypeVar("T")


class ExternalCluster(ClusterOperations):
    """A running cluster of any kind, reached through the current context of a kubeconfig.

    It offers what `Cluster` offers, except what needs the control plane in this process: forks, faults and virtual time
    raise UnsupportedByCluster, for which pytest skips the test.
    """

    def __init__(self, kubeconfig: Path, *, context: str = "") -> None:
        self.clock: Clock = RealClock()
        self._kubeconfig, self._context = kubeconfig, context
        self._access = kubeconfig_files.load(kubeconfig, context=context)
        self._thread: LoopThread | None = None
        self._client: Client | None = None
        self._directory: TemporaryDirectory | None = None
        self._running = AsyncExitStack()

    def __enter__(self) -> ExternalCluster:
        self._thread = LoopThread("external cluster")
        self._thread.start(self._connect())
        return self

    def __exit__(self, *exc: object) -> None:
        if self._thread is not None:
            self._thread.stop()

    async def __aenter__(self) -> ExternalCluster:
        await self._running.enter_async_context(self._connect())
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._running.aclose()

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator[None]:
        from sampan.machinery.client.http import HttpTransport

        transport = HttpTransport(self._access)
        self._directory = TemporaryDirectory("sampan-external-")
        try:
            self._client = Client(transport=transport, clock=self.clock, component="test")
            yield
        finally:
            self._client = None
            self._directory.remove()
            await transport.close()

    @property
    def url(self) -> str:
        return self._access.server

    @property
    def client(self) -> Client:
        if self._client is None:
            raise RuntimeError("the cluster is not connected: enter it with `with ExternalCluster(…) as cluster:`")
        return self._client

    @property
    def kubeconfig(self) -> Path:
        return self.kubeconfig_for("") if self._context else self._kubeconfig

    def kubeconfig_for(self, namespace: str) -> Path:
        """Return the path of a copy of the kubeconfig with another context and namespace."""
        if self._directory is None:
            raise RuntimeError("the cluster is not connected")
        path = self._directory.path / f"kubeconfig-{namespace}"
        if not path.exists():
            config = dict(kubeconfig_files.read_document(self._kubeconfig))
            config["current-context"] = name = self._context or config.get("current-context")
            for entry in config.get("contexts") or ():
                if entry.get("name") == name and namespace:
                    entry["context"] = {**(entry.get("context") or {}), "namespace": namespace}
            write_private(path, yaml.safe_dump(_make_paths_absolute(config, self._kubeconfig.parent)).encode())
        return path

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float = 60) -> T:
        if self._thread is None:
            if asyncio.iscoroutine(work):
                work.close()
            raise RuntimeError("the cluster is not connected: enter it with `with ExternalCluster(…) as cluster:`")
        return self._thread.run(work, timeout_s)

    async def _wait_for_accounts(self, namespace: str) -> None:
        await wait_for_default_account(self.client, namespace)

    def fork(self) -> NoReturn:
        raise UnsupportedByCluster("an external cluster cannot be forked")

    def fault(self, **_: object) -> NoReturn:
        raise UnsupportedByCluster("faults can be injected only into a cluster in this process")

    def node_down(self, name: str) -> NoReturn:
        raise UnsupportedByCluster(f"node {name} of an external cluster cannot be switched off")

    async_node_down = node_down


def _make_paths_absolute(config: dict[str, Any], directory: Path) -> dict[str, Any]:
    """Make the paths in a kubeconfig independent of the directory of the file."""
    for section, inner in (("clusters", "cluster"), ("users", "user")):
        for entry in config.get(section) or ():
            values = entry.get(inner) or {}
            for key in ("certificate-authority", "client-certificate", "client-key", "tokenFile"):
                if values.get(key):
                    values[key] = str((directory / values[key]).absolute())
    return config
