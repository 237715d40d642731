"""The state of a machine as far as nodes depend on it: capabilities, kernel features, programs, engines, disk and
clock."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import resource
import shutil
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sampan.runtimes.choice import DetectedRuntimes

_CAPABILITIES = {12: "CAP_NET_ADMIN", 21: "CAP_SYS_ADMIN"}
_CGROUPS = Path("/sys/fs/cgroup")
_ROOTLESS_PROGRAMS = ("pasta", "slirp4netns", "newuidmap")
_LINK_KINDS = ("bridge", "veth", "wireguard", "vxlan")
_PORTS = (6443, 10250)
_DNS_TIMEOUT_S = 1.0
_UNSYNCHRONIZED = 0x40
"""STA_UNSYNC of adjtimex(2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineState:
    uid: int = 0
    missing_capabilities: Sequence[str] = ()
    cgroup_version: str = "cgroup v2"
    """`cgroup v2`, `cgroup v1`, or an empty string if there are no cgroups."""
    cgroup_controllers: Sequence[str] = ()
    file_systems: Sequence[str] = ()
    link_kinds: Sequence[str] = ()
    """Those kinds of network links used by Sampan that the kernel can create."""
    nft_error: str = ""
    frame_error: str = ""
    """The reason why pods cannot be held to their addresses; empty if they can."""
    has_bridge_netfilter: bool = True
    forwards: bool = True
    dropping_chains: Sequence[str] = ()
    """Netfilter chains of other programs that drop forwarded packets by policy."""
    oci_programs: Sequence[str] = ()
    oci_vulnerabilities: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The known vulnerabilities of the installed versions of these programs, by program and version."""
    runtimes: DetectedRuntimes = field(default_factory=DetectedRuntimes)
    user_namespaces: int = 0
    """The maximum number of user namespaces."""
    is_userns_restricted: bool = False
    rootless_programs: Sequence[str] = ()
    rootless_shortcomings: Sequence[str] = ()
    """The abilities that are missing because this process is only root of a user namespace; empty if it
    is not in one."""
    nameservers: Sequence[str] = ()
    data_directory: Path = Path("/")
    disk_bytes: int = 0
    disk_free_bytes: int = 0
    is_clock_synchronized: bool = True
    descriptor_limit: int = 1 << 20
    """The maximum number of files that a process may have open."""
    silent_nameservers: Sequence[str] = ()
    """The servers in /etc/resolv.conf that do not respond to a query."""
    vanished_bridges: Sequence[str] = ()
    """Bridges of clusters whose data directory is gone."""
    busy_ports: Sequence[int] = ()
    """The default ports of a cluster that are in use."""


async def read_state(data_directory: Path) -> MachineState:
    """Read the state of this machine. `data_directory` is the directory in which a cluster or node
    would keep its data."""
    from sampan.network.mesh.config import can_create
    from sampan.runtimes.oci.binary import find_programs
    from sampan.runtimes.oci.vulnerabilities import find_vulnerabilities

    nft_error, dropping = _read_nftables()
    nameservers = [line.split()[1] for line in _text("/etc/resolv.conf").splitlines() if _is_nameserver(line)]
    directory = next(path for path in (data_directory, *data_directory.parents) if path.exists())
    disk = os.statvfs(directory)
    version, controllers = _read_cgroups()
    return MachineState(
        uid=os.geteuid(),
        missing_capabilities=_missing_capabilities(),
        cgroup_version=version,
        cgroup_controllers=controllers,
        file_systems=[line.split()[-1] for line in _text("/proc/filesystems").splitlines() if line],
        link_kinds=[kind for kind in _LINK_KINDS if can_create(kind)],
        nft_error=nft_error,
        frame_error="" if nft_error else _read_frame_error(),
        has_bridge_netfilter=bool(_text("/proc/sys/net/bridge/bridge-nf-call-iptables")),
        forwards=_text("/proc/sys/net/ipv4/ip_forward") == "1",
        dropping_chains=dropping,
        oci_programs=[f"{name} ({path})" for name, path in find_programs().items()],
        oci_vulnerabilities=await find_vulnerabilities(find_programs()),
        runtimes=await _detect_runtimes(),
        user_namespaces=int(_text("/proc/sys/user/max_user_namespaces") or 0),
        is_userns_restricted=_text("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1",
        rootless_programs=[name for name in _ROOTLESS_PROGRAMS if shutil.which(name)],
        nameservers=nameservers,
        data_directory=data_directory,
        disk_bytes=disk.f_blocks * disk.f_frsize,
        disk_free_bytes=disk.f_bavail * disk.f_frsize,
        is_clock_synchronized=_is_clock_synchronized(),
        descriptor_limit=_descriptor_limit(),
        silent_nameservers=await _silent_nameservers(nameservers),
        vanished_bridges=_vanished_bridges(),
        busy_ports=find_busy_ports(),
    )


def find_busy_ports() -> list[int]:
    """Return those of the default ports of a cluster that are in use in the network namespace of this process."""
    return [port for port in _PORTS if _is_busy(port)]


def _descriptor_limit() -> int:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return 1 << 20 if hard == resource.RLIM_INFINITY else hard


def _is_busy(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


async def _silent_nameservers(servers: Sequence[str]) -> list[str]:
    """Return the servers that do not respond to a query for the root of the DNS within a second."""
    results = await asyncio.gather(*(asyncio.to_thread(_responds, server) for server in servers[:3]))
    return [server for server, responds in zip(servers, results, strict=False) if not responds]


def _responds(server: str) -> bool:
    query = bytes.fromhex("5a4d01000001000000000000") + b"\0" + bytes.fromhex("00020001")  # NS of the root zone
    try:
        family = socket.AF_INET6 if ":" in server else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as client:
            client.settimeout(_DNS_TIMEOUT_S)
            client.connect((server, 53))
            client.send(query)
            return len(client.recv(512)) >= 12
    except OSError:
        return False


def _vanished_bridges() -> list[str]:
    from sampan.network.leftovers import find_leftovers

    return find_leftovers()


async def _detect_runtimes() -> DetectedRuntimes:
    """Probe all runtimes, also those after the first usable one."""
    from sampan.runtimes.choice import ORDER, detect

    results = [await detect(name) for name in ORDER]
    return DetectedRuntimes(
        usable={name: place for result in results for name, place in result.usable.items()},
        errors={name: error for result in results for name, error in result.errors.items()},
    )


def _missing_capabilities() -> list[str]:
    lines = [line for line in _text("/proc/self/status").splitlines() if line.startswith("CapEff:")]
    capabilities = int(lines[0].split()[1], 16) if lines else 0
    return [name for bit, name in _CAPABILITIES.items() if not capabilities >> bit & 1]


def _read_cgroups() -> tuple[str, list[str]]:
    """Return the version of the cgroup hierarchy that has the controllers, and the controllers."""
    if controllers := _text(str(_CGROUPS / "cgroup.controllers")).split():
        return "cgroup v2", controllers
    mounts = [line.split() for line in _text("/proc/self/mounts").splitlines()]
    options = [word for mount in mounts if mount[2] == "cgroup" for word in mount[3].split(",")]
    known_controllers = [line.split()[0] for line in _text("/proc/cgroups").splitlines() if not line.startswith("#")]
    mounted = ["io" if name == "blkio" else name for name in known_controllers if name in options]
    return ("cgroup v1" if mounted else ""), mounted


def _read_nftables() -> tuple[str, list[str]]:
    from sampan.network.nft import NftError, list_rules, nft_program
    from sampan.network.pods.firewall import dropping_chains

    if nft_program() is None:
        return "nft is not installed", []
    try:
        return "", [str(chain) for chain in dropping_chains(list_rules("chains"), "")]
    except NftError as error:
        return str(error), []


def _read_frame_error() -> str:
    """Return why the kernel or nft rejects the table that holds pods to their addresses, without creating it."""
    from sampan.network.nft import NftError, run_nft
    from sampan.network.pods.frame_table import frame_table_text

    try:
        run_nft("-c", "-f", "-", text=frame_table_text("doctor", ()))
    except NftError as error:
        return str(error).splitlines()[0]
    return ""


def _is_nameserver(line: str) -> bool:
    return line.startswith("nameserver") and len(line.split()) > 1


def _is_clock_synchronized() -> bool:
    """Whether the kernel considers its clock synchronized. The structure timex begins with `modes`, and has `status`
    after four longs."""
    buffer = (ctypes.c_long * 64)()
    with contextlib.suppress(OSError, AttributeError):
        if ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(buffer)) >= 0:
            return not int(buffer[5]) & _UNSYNCHRONIZED
    return True


def _text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
