"""Connections to kubelets: directly to those in this process, over HTTPS to all others."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sampan.api.addresses import is_address
from sampan.api.names import LABEL_MAX
from sampan.api.types.core_v1 import Node, Pod
from sampan.apiserver.proxy.locations import Location, check_reachable, kubelet_port, node_address
from sampan.host.http import HttpRequest, StreamResponse
from sampan.machinery import errors
from sampan.machinery.hollow import is_hollow_address, is_hollow_node
from sampan.machinery.pki.server_tls import read_peer

if TYPE_CHECKING:
    from sampan.apiserver.registry.registry import Registry
ADDRESS_TYPES = ("InternalIP", "ExternalIP", "Hostname", "InternalDNS", "ExternalDNS")


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletAccess:
    """The settings for connections to kubelets."""

    certificate: Path | None = None
    key: Path | None = None
    """The client certificate and key that the server presents to kubelets."""
    ca: Path | None = None
    """The CA of the kubelets' serving certificates; None: they are not verified."""
    verifies_node_names: bool = False
    """Whether a kubelet is verified by the common name of its certificate, system:node:NAME, instead of its address. A
    node reports its own address. With names it gains nothing by reporting the address of another node or of the API
    server, whose certificate is signed by the same CA."""
    address_types: Sequence[str] = field(default=ADDRESS_TYPES)
    timeout_s: float = 5.0
    """The timeout for opening a connection."""

    @property
    def files(self) -> list[Path]:
        return [path for path in (self.certificate, self.key, self.ca) if path is not None]

    def context(self) -> ssl.SSLContext:
        context = make_unverified_context() if self.ca is None else self._make_verifying_context(self.ca)
        if self.certificate is not None:
            context.load_cert_chain(self.certificate, self.key)
        return context

    def _make_verifying_context(self, ca: Path) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(ca))
        if self.verifies_node_names:
            context.check_hostname = False
            context.sslobject_class = _KubeletTls
        return context


class _KubeletTls(ssl.SSLObject):
    """A TLS connection whose server name is that of a node: the certificate must be the node's."""

    def do_handshake(self) -> None:
        super().do_handshake()
        peer = read_peer(self.getpeercert() or {})
        if peer.common_name != f"system:node:{self.server_hostname}" or "system:nodes" not in peer.organizations:
            text = f"x509: certificate is valid for {peer.common_name}, not system:node:{self.server_hostname}"
            raise ssl.SSLCertVerificationError(1, text)


class LocalKubelet(Protocol):
    """A kubelet in this process. If it rejects a request it raises, before the first piece, an exception with `code`
    and `text`."""

    async def handle(self, request: HttpRequest) -> StreamResponse | None: ...

    def log(
        self, namespace: str, pod: str, container: str, query: Mapping[str, str]
    ) -> AsyncGenerator[bytes, None]: ...

    async def summary(self) -> Mapping[str, Any]: ...


FindLocalKubelet = Callable[[str], LocalKubelet | None]
"""Returns the kubelet of a node by name, if it runs in this process."""


def find_no_kubelet(node: str) -> LocalKubelet | None:
    return None


class Kubelets:
    def __init__(
        self, *, registry: Registry, access: KubeletAccess, find_local: FindLocalKubelet = find_no_kubelet
    ) -> None:
        self._registry, self.access, self.find_local = registry, access, find_local
        self._tls: ssl.SSLContext | None = None

    async def node(self, name: str) -> Node:
        store = self._registry.open_store_of("", "v1", "Node")
        item = await store.get("", name)
        node: Node = item.object(store.codec.decode)
        return node

    async def is_hollow(self, pod: Pod) -> bool:
        """Return whether a pod is on a hollow node, which means that nothing listens on its address."""
        store = self._registry.open_store_of("", "v1", "Node")
        item = await store.cacher.get("", pod.spec.nodeName) if pod.spec.nodeName else None
        if item is None:
            return is_hollow_address(pod.status.hostIP)
        return is_hollow_node(item.object(store.codec.decode))

    async def location(self, name: str) -> Location:
        """Return the address of the node's kubelet. Raise ServiceUnavailable for a hollow node of another process."""
        node = await self.node(name)
        if is_hollow_node(node):
            raise errors.service_unavailable(f"the kubelet of hollow node {name} listens on no port")
        host = node_address(node, self.access.address_types)
        server_name = name if self.access.verifies_node_names else ""
        if any(len(label) > LABEL_MAX for label in server_name.split(".")):
            raise errors.service_unavailable(f"the name of node {name} cannot be verified: it is not a host name")
        return Location(host=host, port=kubelet_port(node), is_tls=True, is_kubelet=True, server_name=server_name)

    async def check_reachable(self, host: str) -> None:
        if is_address(host):
            check_reachable([host])
            return
        try:
            infos = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError as error:
            raise errors.bad_request(f"lookup {host}: {error.strerror or error}") from None
        check_reachable(str(info[4][0]) for info in infos)

    def tls(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = self.access.context()
        return self._tls

    def renew_tls(self, context: ssl.SSLContext) -> None:
        """Use another TLS context for new connections."""
        self._tls = context


def make_unverified_context() -> ssl.SSLContext:
    """Return a context that does not verify certificates, as kube-apiserver does for pods and services."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
