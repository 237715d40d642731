"""An API server and one node in a thread of this process, with real ports and certificates. Containers are plain
processes, and clients connect over TLS."""

import asyncio
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from sampan.api.types.core_v1 import (
    Binding,
    Container,
    DaemonEndpoint,
    Node,
    NodeAddress,
    NodeDaemonEndpoints,
    NodeStatus,
    ObjectReference,
    Pod,
    PodSpec,
    ServiceAccount,
)
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.apiserver.config.server_config import ServerConfig, TlsFiles
from sampan.apiserver.proxy.kubelets import KubeletAccess
from sampan.apiserver.request.call import AUTHENTICATED, MASTERS, UserInfo
from sampan.apiserver.server import ApiServer
from sampan.apiserver.server_address import find_default_route_address
from sampan.cluster.pki import ACCOUNTS, ADMIN, CA, SERVER, Pki
from sampan.host.clock import RealClock
from sampan.kubelet.server.auth import KubeletAuth
from sampan.kubelet.server.ports import listen, tls_context
from sampan.kubelet.server.server import KubeletServer
from sampan.machinery.client import Client
from sampan.machinery.http.delegation import DelegatedAuth
from sampan.storage.memory import MemoryBackend
from tests.kubelet.server.process_node import PlainNode, plain_node

TOKEN, UNPRIVILEGED_TOKEN = "admin-token", "unprivileged-token"
_USERS = {
    TOKEN: UserInfo("admin", groups=(MASTERS, AUTHENTICATED)),
    UNPRIVILEGED_TOKEN: UserInfo("unprivileged", groups=(AUTHENTICATED,)),
}
ADDRESS = find_default_route_address()


class StreamingCluster:
    """A cluster for tests of exec, logs, attach, port-forward and proxies. `run` runs a coroutine in the event loop of
    the cluster."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self.directory = directory
        self.loop = asyncio.new_event_loop()
        self.node: PlainNode
        self.server: ApiServer
        self.client: Client
        self.kubelet_port = 0
        self._ready, self._over = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=self._run)
        self._failure: BaseException | None = None

    def start(self) -> None:
        self._thread.start()
        self._ready.wait(60)
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self._over.set)
            self._thread.join(60)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def _run(self) -> None:
        try:
            self.loop.run_until_complete(self._main())
        except BaseException as failure:
            self._failure = failure
        finally:
            self._ready.set()
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()

    async def _main(self) -> None:
        clock, pki = RealClock(), Pki(self.directory / "pki")
        pki.ensure(names=["127.0.0.1", "localhost", ADDRESS], now=time.time())
        tls = TlsFiles(certificate=pki.certificate(SERVER), key=pki.key(SERVER), client_ca=pki.certificate(CA))
        access = KubeletAccess(certificate=pki.certificate(ADMIN), key=pki.key(ADMIN), ca=pki.certificate(CA))
        config = ServerConfig(
            any_secure_port=True,
            bind_address="127.0.0.1",
            tls=tls,
            tokens=_USERS,
            kubelets=access,
            service_account_key=pki.key(ACCOUNTS),
        )
        async with (
            MemoryBackend(clock=clock) as backend,
            ApiServer(config=config, backend=backend, clock=clock) as self.server,
            plain_node(self.directory) as self.node,
        ):
            self.client = Client(transport=self.server.loopback(), clock=clock, component="test")
            kubelet = KubeletServer(
                view=self.node,
                clock=clock,
                auth=KubeletAuth(node="plain", delegation=DelegatedAuth(client=self.client, clock=clock)),
            )
            context = tls_context(tls.certificate, tls.key, tls.client_ca)
            async with listen(kubelet.handle, host="0.0.0.0", port=0, tls=context) as self.kubelet_port:
                await self._populate()
                await asyncio.to_thread(int)  # start a worker thread now, not in the first test that needs one
                self._ready.set()
                await self._over.wait()
        for _ in range(20):  # let the loop close aborted connections
            await asyncio.sleep(0)

    async def _populate(self) -> None:
        port = NodeDaemonEndpoints(kubeletEndpoint=DaemonEndpoint(Port=self.kubelet_port))
        address = NodeAddress(type="InternalIP", address=ADDRESS)
        status = NodeStatus(addresses=[address], daemonEndpoints=port, capacity={"cpu": "2", "memory": "4Gi"})
        await self.client.for_kind(Node).create(Node(metadata=ObjectMeta(name="plain"), status=status))
        account = ServiceAccount(metadata=ObjectMeta(name="default", namespace="default"))
        await self.client.for_kind(ServiceAccount).create(account)

    # -- operations of tests -------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.server.secure_port}"

    def kubeconfig(self, token: str = TOKEN) -> Path:
        path = self.directory / f"kubeconfig-{token}"
        cluster = {"server": self.url, "certificate-authority": str(self.directory / "pki" / "ca.crt")}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }
        path.write_text(yaml.safe_dump(content))
        return path

    def pod(self, name: str, *command: str, runs: bool = True, **more: Any) -> Pod:
        """Create a pod on the node and start its processes."""
        container = Container(name="main", image="plain", command=list(command), **more)
        pod: Pod = self.run(self._pod(name, container, runs))
        return pod

    async def _pod(self, name: str, container: Container, runs: bool) -> Pod:
        spec = PodSpec(containers=[container], automountServiceAccountToken=False)
        pods = self.client.for_kind(Pod)
        await pods.create(Pod(metadata=ObjectMeta(name=name, namespace="default"), spec=spec))
        meta = ObjectMeta(name=name, namespace="default")
        target = ObjectReference(kind="Node", name="plain")
        await pods.create_subresource("binding", name, Binding(metadata=meta, target=target), "default")
        bound = await pods.get(name, "default")
        if not runs:
            return bound
        mine = Pod(metadata=bound.metadata, spec=bound.spec)
        await self.node.run(mine)
        return await self.publish(mine)

    async def publish(self, pod: Pod) -> Pod:
        """Write the status that the node has for the pod."""
        present = await self.client.for_kind(Pod).get(pod.metadata.name, pod.metadata.namespace)
        status = pod.status
        status.podIP, status.podIPs[0].ip = ADDRESS, ADDRESS
        status.qosClass = present.status.qosClass
        return await self.client.for_kind(Pod).update_status(
            Pod(metadata=present.metadata, spec=present.spec, status=status)
        )


@contextmanager
def streaming_cluster(directory: Path) -> Iterator[StreamingCluster]:
    cluster = StreamingCluster(directory)
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.stop()
