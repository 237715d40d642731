"""A whole cluster inside a test: `with Cluster() as cluster:`.

It runs in this process, in a thread of its own with an event loop of its own, on a free port, in memory; nothing is
written to disk but a folder for its certificates and kubeconfig, which goes away with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
import threading
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from sampan.apiserver.config import ServerConfig, TlsFiles
from sampan.cli import kubeconfig
from sampan.cli.assembly import COMPONENTS, Assembly, ClusterConfig, StoreConfig
from sampan.cli.pki import ADMIN, CA, SERVER, Pki
from sampan.machinery.client import Client
from sampan.machinery.clock import Clock, RealClock

T = TypeVar("T")


class Cluster:
    """A cluster to test against.

    `url` and `kubeconfig` are for clients of any kind; `client` is Sampan's own, whose coroutines `run` carries out.
    Enter it once; two clusters do not know of each other.
    """

    def __init__(
        self,
        *,
        components: Sequence[str] = COMPONENTS,
        controllers: Sequence[str] = ("*",),
        store: StoreConfig | None = None,
        insecure: bool = False,
        runtime_config: dict[str, bool] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._components, self._controllers = components, controllers
        self._store = store or StoreConfig()
        self._insecure = insecure
        self._runtime_config = runtime_config or {}
        self._clock = clock or RealClock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stop: asyncio.Event | None = None
        self._assembly: Assembly | None = None
        self._folder: Path | None = None

    def __enter__(self) -> Cluster:
        self._folder = Path(tempfile.mkdtemp(prefix="sampan-test-"))
        ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="sampan cluster", daemon=True)
        self._thread.start()
        try:
            ready.result(timeout=60)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._end()

    @property
    def url(self) -> str:
        """Where the API server is, over HTTPS."""
        return f"https://127.0.0.1:{self.assembly.server.secure_port}"

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig file for the administrator."""
        return self._home / "kubeconfig"

    @property
    def ca(self) -> Path:
        """The certificate that `url` is verified with."""
        return Pki(self._home / "pki").certificate(CA)

    @property
    def client(self) -> Client:
        """A client in the server's own process."""
        return Client(transport=self.assembly.server.loopback(), clock=self._clock, component="test")

    @property
    def assembly(self) -> Assembly:
        if self._assembly is None:
            raise RuntimeError("the cluster is not running")
        return self._assembly

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float = 30) -> T:
        """Carry out a coroutine on the cluster's loop and wait for it."""
        if self._loop is None:
            raise RuntimeError("the cluster is not running")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)

    @property
    def _home(self) -> Path:
        if self._folder is None:
            raise RuntimeError("the cluster is not running")
        return self._folder

    def _run(self, ready: Future[None]) -> None:
        try:
            asyncio.run(self._serve(ready))
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error)
            else:
                raise

    async def _serve(self, ready: Future[None]) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        pki = Pki(self._home / "pki")
        pki.ensure(names=["localhost", "127.0.0.1"], now=time.time())
        assembly = Assembly(config=self._config(pki), clock=self._clock)
        async with assembly:
            self._assembly = assembly
            self._write_kubeconfig(pki)
            ready.set_result(None)
            await self._stop.wait()

    def _config(self, pki: Pki) -> ClusterConfig:
        tls = TlsFiles(certificate=pki.certificate(SERVER), key=pki.key(SERVER), client_ca=pki.certificate(CA))
        return ClusterConfig(
            server=ServerConfig(
                bind_address="127.0.0.1",
                any_secure_port=True,
                tls=tls,
                runtime_config=self._runtime_config,
            ),
            store=self._store,
            components=self._components,
            controllers=self._controllers,
            root_ca=pki.certificate(CA).read_bytes(),
        )

    def _write_kubeconfig(self, pki: Pki) -> None:
        config = kubeconfig.admin_config(
            name="sampan-test",
            url=self.url,
            ca=pki.certificate(CA).read_bytes(),
            certificate=pki.certificate(ADMIN).read_bytes(),
            key=pki.key(ADMIN).read_bytes(),
        )
        kubeconfig.write(self.kubeconfig, config)

    def _end(self) -> None:
        if self._loop is not None and self._stop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread is not None:
            self._thread.join(timeout=30)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


__all__ = ["Cluster"]
