"""A node, a host outside it, and pods, each in its own network namespace: nothing touches the machine's network."""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from sampan.host.linux.network_namespace import bring_up_loopback, run_in_network
from sampan.network.pods import unsupported_reason
from sampan.runtimes.kernel import MS_BIND, mount, unmount

needs_network = pytest.mark.skipif(bool(unsupported_reason()), reason=unsupported_reason() or "supported")

SCTP = 132
"""The IP protocol number of SCTP."""


def _has_sctp() -> bool:
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, SCTP).close()
    except OSError:
        return False
    return True


needs_sctp = pytest.mark.skipif(not _has_sctp(), reason="the kernel has no SCTP")

NODE_IP, OUTSIDE_IP = "192.0.2.1", "192.0.2.2"
NODE_IP6, OUTSIDE_IP6 = "2001:db8::1", "2001:db8::2"
_CLONE_NEWNET = 0x40000000
_WAIT_S = 60.0

T = TypeVar("T")


class Lab:
    """`node` has a link to `outside`, and its default routes lead there; `outside` knows no way to pods."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.namespaces: list[Path] = []
        self.node, self.outside = self.add_namespace("node"), self.add_namespace("outside")
        run_in_network(self.node, self._join)
        run_in_network(self.outside, lambda: _address("up1", OUTSIDE_IP, OUTSIDE_IP6))

    def close(self) -> None:
        for namespace in self.namespaces:
            unmount(namespace)

    def add_namespace(self, name: str) -> Path:
        file = self._directory / name
        file.touch()
        thread = threading.Thread(target=_keep_new_namespace, args=[file])
        thread.start()
        thread.join()
        run_in_network(file, bring_up_loopback)
        self.namespaces.append(file)
        return file

    def end(self, namespace: Path) -> None:
        """End a namespace but keep its file, as when the sandbox of a pod disappears."""
        unmount(namespace)

    def run(self, main: Callable[[], Awaitable[T]]) -> T:
        """Run a coroutine in the network namespace of the node."""

        async def run_main() -> T:
            return await main()

        return run_in_network(self.node, lambda: asyncio.run(run_main()))

    def links(self) -> set[str]:
        return {name for _, name in run_in_network(self.node, socket.if_nameindex)}

    def _join(self) -> None:
        from pyroute2 import IPRoute

        file = os.open(self.outside, os.O_RDONLY)
        with IPRoute() as netlink:
            netlink.link("add", ifname="up0", kind="veth", mtu=1400, peer={"ifname": "up1", "net_ns_fd": file})
            os.close(file)
            _address("up0", NODE_IP, NODE_IP6)
            netlink.route("add", dst="default", gateway=OUTSIDE_IP)
            netlink.route("add", dst="default", gateway=OUTSIDE_IP6, family=socket.AF_INET6)


def _address(link: str, *addresses: str) -> None:
    from pyroute2 import IPRoute

    index = socket.if_nametoindex(link)
    with IPRoute() as netlink:
        netlink.link("set", index=index, state="up")
        for address in addresses:
            length, flags = (64, 2) if ":" in address else (24, 0)
            netlink.addr("add", index=index, address=address, prefixlen=length, flags=flags)


def _keep_new_namespace(file: Path) -> None:
    assert ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET) == 0
    mount(f"/proc/self/task/{threading.get_native_id()}/ns/net", file, flags=MS_BIND)


# -- connections -------------------------------------------------------------------------------------------------------


@contextmanager
def listening(namespace: Path, port: int, kind: int = socket.SOCK_STREAM, protocol: int = 0) -> Iterator[socket.socket]:
    """Listen on every address of both IP families."""

    def open_server() -> socket.socket:
        server = socket.socket(socket.AF_INET6, kind, protocol)
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.settimeout(_WAIT_S)
        server.bind(("::", port))
        if kind == socket.SOCK_STREAM:
            server.listen()
        return server

    with closing(run_in_network(namespace, open_server)) as server:
        yield server


def observe_source(
    server: socket.socket, namespace: Path, to: tuple[str, int], protocol: int = 0, wait_s: float = _WAIT_S
) -> str:
    """Connect from a namespace to an address of the server; return the client address that the server sees."""
    family = socket.AF_INET6 if ":" in to[0] else socket.AF_INET
    with ExitStack() as stack:
        client = stack.enter_context(run_in_network(namespace, lambda: socket.socket(family, server.type, protocol)))
        client.settimeout(wait_s)
        client.connect(to)
        if server.type == socket.SOCK_STREAM:
            peer, source = server.accept()
            stack.enter_context(peer)
            peer.sendall(b"hello")
        else:
            client.send(b"?")
            _, source = server.recvfrom(10)
            server.sendto(b"hello", source)
        assert client.recv(10) == b"hello"
    return str(source[0]).removeprefix("::ffff:")
