"""Check a machine against the server that it is about to join, and explain what is wrong.

The functions `check_*` are pure; `read_link`, `used_ports`, `probe_large_response` and `fetch_node` look at the machine
and the network.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

import msgspec

from sampan.cluster.join.discovery import JoinError, ServerAddress, get
from sampan.cluster.join.token import JoinToken
from sampan.cluster.machine.machine_checks import CheckLevel, CheckResult

_MAX_SKEW_S, _NOTED_SKEW_S = 240.0, 5.0
"""The clock skew in seconds that prevents a join, and the skew that is only reported. Certificates are valid from five
minutes before they are issued."""
_MIN_MTU = 1280
_IP_MTU, _IPV6_MTU = 14, 24
_LARGE_BYTES = 6000
"""The size of a request that needs several full packets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLink:
    """The network path from this machine to the server."""

    address: str
    """The address of this machine on the path to the server."""
    server_address: str
    mtu: int


def read_link(server: ServerAddress) -> ServerLink:
    """Return the addresses and the MTU on the path to the server. No packet is sent, except for the name lookup."""
    try:
        family, _, _, _, target = socket.getaddrinfo(server.host, server.port, type=socket.SOCK_DGRAM)[0]
    except OSError as error:
        raise JoinError(
            f"the name {server.host} cannot be resolved ({error.strerror}): check /etc/resolv.conf, or use an address"
        ) from None
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(target)
        except OSError as error:
            raise JoinError(f"there is no route to {target[0]}: {error.strerror}") from None
        is_v6 = family == socket.AF_INET6
        level, option = (socket.IPPROTO_IPV6, _IPV6_MTU) if is_v6 else (socket.IPPROTO_IP, _IP_MTU)
        mtu = probe.getsockopt(level, option)
        return ServerLink(address=str(probe.getsockname()[0]), server_address=str(target[0]), mtu=mtu)


def check_clock(server_time: float | None, now: float) -> CheckResult:
    name = "clock"
    if server_time is None:
        return CheckResult(name=name, level=CheckLevel.OK, detail="the server does not tell its time")
    skew_s = now - server_time
    detail = f"this machine is {abs(skew_s):.0f} s {'ahead of' if skew_s > 0 else 'behind'} the server"
    if abs(skew_s) <= _NOTED_SKEW_S:
        return CheckResult(name=name, level=CheckLevel.OK, detail=detail)
    level = CheckLevel.ERROR if abs(skew_s) > _MAX_SKEW_S else CheckLevel.WARNING
    return CheckResult(
        name=name,
        level=level,
        detail=detail,
        cost="certificates seem expired or not yet valid, and heartbeats of the node seem late",
        remedy="timedatectl set-ntp true (or chronyc makestep), on both machines",
    )


def check_mtu(link: ServerLink, *, has_large_response: bool) -> CheckResult:
    name, detail = "MTU", f"{link.mtu} on the way to {link.server_address}"
    if not has_large_response:
        return CheckResult(
            name=name,
            level=CheckLevel.ERROR,
            detail=f"{detail}, but large packets do not arrive",
            cost="connections hang as soon as they carry data",
            remedy=f"lower the MTU of the interface with {link.address}, for example: ip link set dev eth0 mtu 1400",
        )
    if link.mtu < _MIN_MTU:
        return CheckResult(
            name=name,
            level=CheckLevel.WARNING,
            detail=detail,
            cost="IPv6 needs 1280, and tunnels between pods make it smaller still",
            remedy="raise the MTU of the interface on the way to the server",
        )
    return CheckResult(name=name, level=CheckLevel.OK, detail=detail)


def check_ports(used: Sequence[int]) -> CheckResult:
    if not used:
        return CheckResult(name="ports", level=CheckLevel.OK, detail="the ports of the node are free")
    numbers = ", ".join(map(str, used))
    return CheckResult(
        name="ports",
        level=CheckLevel.ERROR,
        detail=f"in use: {numbers}",
        cost="the kubelet cannot serve logs, exec and metrics",
        remedy=f"see who listens: ss -ltnp 'sport = :{used[0]}'; or choose another port with --port",
    )


def check_overlaps(address: str, cidrs: Sequence[str]) -> CheckResult:
    """Check that the networks of the cluster do not contain the address of the machine."""
    name = "networks"
    networks = [ip_network(cidr, strict=False) for cidr in cidrs]
    overlapping = [str(network) for network in networks if ip_address(address) in network]
    if not overlapping:
        return CheckResult(name=name, level=CheckLevel.OK, detail="no overlap with the networks of the cluster")
    return CheckResult(
        name=name,
        level=CheckLevel.ERROR,
        detail=f"{address} of this machine is in {overlapping[0]}, a network of the cluster",
        cost="pods or services and machines would have the same addresses",
        remedy="start the cluster with another --cluster-cidr or --service-cluster-ip-range",
    )


def check_name(node: str, existing: object) -> CheckResult:
    """Check that the node does not exist yet. `existing` is the decoded Node object, or None."""
    name = "node name"
    if not isinstance(existing, dict):
        return CheckResult(name=name, level=CheckLevel.OK, detail=f"{node} is free")
    status = existing.get("status", {})
    conditions = {condition["type"]: condition["status"] for condition in status.get("conditions", [])}
    addresses = [address["address"] for address in status.get("addresses", []) if address["type"] == "InternalIP"]
    if conditions.get("Ready") != "True":
        return CheckResult(
            name=name, level=CheckLevel.OK, detail=f"{node} exists and is not ready; this machine takes its place"
        )
    return CheckResult(
        name=name,
        level=CheckLevel.ERROR,
        detail=f"the cluster has a ready node {node} at {', '.join(addresses) or 'another machine'}",
        cost="two machines would report the status of one node",
        remedy=f"choose another name with --node-name, or remove the other: kubectl delete node {node}",
    )


# -- effects ---------------------------------------------------------------------------------------------------------


def used_ports(ports: Sequence[int]) -> list[int]:
    return [port for port in ports if _is_used(port)]


def _is_used(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


def probe_large_response(server: ServerAddress, context: ssl.SSLContext) -> bool:
    """Whether the server responds to a request that needs several full packets. If not, large packets are lost on the
    way."""
    try:
        get(server, "/version", context, {"X-Padding": "0" * _LARGE_BYTES})
    except JoinError:
        return False
    return True


def fetch_node(server: ServerAddress, context: ssl.SSLContext, token: JoinToken, node: str) -> object:
    """Return the Node object of that name, or None. Raise JoinError if the token is not valid."""
    response = get(server, f"/api/v1/nodes/{node}", context, {"Authorization": f"Bearer {token.bearer}"})
    if response.status == 401:
        raise JoinError(
            f"{server} does not accept the token {token.id}: it expired, was used or deleted. "
            "`sampan token create` on the cluster makes another (and --enable-bootstrap-token-auth must not be false)"
        )
    if response.status != 200:
        return None
    with contextlib.suppress(msgspec.MsgspecError):
        return msgspec.json.decode(response.body)
    return None
