"""Machines on a network: each is a network namespace with an `eth0`, connected by a switch that also routes between
subnets. Nothing touches the machine's own network."""

from __future__ import annotations

import ctypes
import os
import socket
import threading
from ipaddress import ip_interface
from pathlib import Path

from sampan.host.linux.network_namespace import bring_up_loopback, run_in_network
from sampan.runtimes.kernel import MS_BIND, mount, unmount

_CLONE_NEWNET = 0x40000000
_BRIDGE = "br0"


class Machines:
    """`add("a", "10.77.0.1/24")` adds a machine whose default route leads to the switch, the last address of the
    subnet."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._namespaces: list[Path] = []
        self._gateways: set[str] = set()
        self.switch = self._add_namespace("switch")
        run_in_network(self.switch, self._make_switch)

    def close(self) -> None:
        for namespace in self._namespaces:
            unmount(namespace)

    def add(self, name: str, address: str, *, mtu: int = 1500) -> Path:
        """Return the path of the machine's network namespace."""
        namespace = self._add_namespace(name)
        run_in_network(self.switch, lambda: self._connect(namespace, name, mtu))
        self.give_address(namespace, address)
        return namespace

    def give_address(self, namespace: Path, address: str) -> None:
        """Replace the address of a machine."""
        interface = ip_interface(address)
        gateway = str(interface.network[-2])
        if gateway not in self._gateways:
            run_in_network(self.switch, lambda: _set_address(_BRIDGE, f"{gateway}/{interface.network.prefixlen}"))
            self._gateways.add(gateway)
        run_in_network(namespace, lambda: _become(address, gateway))

    def _add_namespace(self, name: str) -> Path:
        file = self._directory / name
        file.touch()

        def keep() -> None:
            assert ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET) == 0
            mount(f"/proc/self/task/{threading.get_native_id()}/ns/net", file, flags=MS_BIND)

        thread = threading.Thread(target=keep)
        thread.start()
        thread.join()
        run_in_network(file, bring_up_loopback)
        self._namespaces.append(file)
        return file

    def _make_switch(self) -> None:
        from pyroute2 import IPRoute

        with IPRoute() as netlink:
            netlink.link("add", ifname=_BRIDGE, kind="bridge")
            netlink.link("set", index=socket.if_nametoindex(_BRIDGE), state="up")
        for name, value in (("ip_forward", "1"), ("conf/all/send_redirects", "0"), ("conf/br0/send_redirects", "0")):
            Path("/proc/sys/net/ipv4", name).write_text(value)

    def _connect(self, namespace: Path, name: str, mtu: int) -> None:
        from pyroute2 import IPRoute

        file = os.open(namespace, os.O_RDONLY)
        try:
            with IPRoute() as netlink:
                peer = {"ifname": "eth0", "net_ns_fd": file, "mtu": mtu}
                netlink.link("add", ifname=f"to-{name}", kind="veth", mtu=mtu, peer=peer)
                bridge = socket.if_nametoindex(_BRIDGE)
                netlink.link("set", index=socket.if_nametoindex(f"to-{name}"), master=bridge, state="up")
        finally:
            os.close(file)


def _set_address(link: str, address: str) -> None:
    from pyroute2 import IPRoute

    with IPRoute() as netlink:
        netlink.addr("add", index=socket.if_nametoindex(link), address=address)


def _become(address: str, gateway: str) -> None:
    from pyroute2 import IPRoute

    index = socket.if_nametoindex("eth0")
    with IPRoute() as netlink:
        netlink.link("set", index=index, state="up")
        netlink.flush_addr(index=index, family=socket.AF_INET)
        netlink.addr("add", index=index, address=address)
        netlink.route("replace", dst="default", gateway=gateway)
