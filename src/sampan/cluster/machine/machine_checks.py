"""Checks of what a machine lacks for running nodes, the consequences, and the remedies.

`machine_state.read_state` looks at the machine; the checks are pure functions of that state, so that every finding can
be tested on any machine. `sampan doctor` prints all results, `sampan join` those that keep a node from running.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sampan.cluster.machine.machine_state import MachineState
from sampan.kubelet.agent.config import LOCAL_HARD_EVICTION
from sampan.runtimes.names import CRI, DOCKER, OCI

_MIN_DISK_BYTES = 2 << 30
_NEEDED_CONTROLLERS = ("cpu", "memory", "pids")
_WANTED_CONTROLLERS = ("cpuset", "io")
_MIN_DESCRIPTORS = 4096


class CheckLevel(StrEnum):
    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    name: str
    level: CheckLevel
    detail: str
    """The property that the machine has or lacks."""
    cost: str = ""
    """The functions that do not work because of the shortcoming."""
    remedy: str = ""
    """The remedy, if possible a command."""


Check = Callable[[MachineState], CheckResult]


def check_machine(state: MachineState) -> list[CheckResult]:
    """Return the results of all checks, in the order in which a user would fix the shortcomings."""
    return [check(state) for check in CHECKS]


def errors_in(results: Sequence[CheckResult]) -> Iterator[CheckResult]:
    return (result for result in results if result.level is CheckLevel.ERROR)


def _ok(name: str, detail: str) -> CheckResult:
    return CheckResult(name=name, level=CheckLevel.OK, detail=detail)


def _warning(name: str, detail: str, *, cost: str, remedy: str) -> CheckResult:
    return CheckResult(name=name, level=CheckLevel.WARNING, detail=detail, cost=cost, remedy=remedy)


def _error(name: str, detail: str, *, cost: str, remedy: str) -> CheckResult:
    return CheckResult(name=name, level=CheckLevel.ERROR, detail=detail, cost=cost, remedy=remedy)


def _check_root(state: MachineState) -> CheckResult:
    name = "root"
    if state.rootless_shortcomings:
        return _warning(
            name,
            "not root: nodes run in a user namespace",
            cost="; ".join(state.rootless_shortcomings),
            remedy="install uidmap and slirp4netns, with ranges in /etc/subuid and /etc/subgid; or run as root",
        )
    if not state.missing_capabilities:
        return _ok(name, "running as root" if state.uid == 0 else "has the capabilities that nodes need")
    return _error(
        name,
        f"lacks {', '.join(state.missing_capabilities)}",
        cost="no containers and no pod network; only `--runtime process` and hollow nodes",
        remedy="run as root: sudo sampan ...",
    )


def _check_cgroups(state: MachineState) -> CheckResult:
    name, controllers = "cgroups", set(state.cgroup_controllers)
    if not state.cgroup_version:
        return _error(
            name,
            "no cgroup file system is mounted",
            cost="no resource limits, no OOM handling, no metrics of pods",
            remedy="mount -t cgroup2 none /sys/fs/cgroup",
        )
    if missing := [controller for controller in _NEEDED_CONTROLLERS if controller not in controllers]:
        return _error(
            name,
            f"{state.cgroup_version} without the controllers {', '.join(missing)}",
            cost="limits of pods on these resources are not enforced",
            remedy="remove cgroup_disable=... from the kernel command line; on systemd: Delegate=yes",
        )
    if absent := [controller for controller in _WANTED_CONTROLLERS if controller not in controllers]:
        return _warning(
            name,
            f"{state.cgroup_version} without {', '.join(absent)}",
            cost="less isolation between pods; nothing else fails",
            remedy="enable the controllers in the kernel configuration",
        )
    return _ok(name, f"{state.cgroup_version}: {', '.join(sorted(controllers))}")


def _check_oci(state: MachineState) -> CheckResult:
    name = "oci runtime"
    if state.oci_programs:
        return _ok(name, ", ".join(state.oci_programs))
    return _error(
        name,
        "neither crun nor runc is installed",
        cost="`--runtime oci`, the default, cannot run pods",
        remedy="apt-get install crun (or runc)",
    )


def _check_oci_versions(state: MachineState) -> CheckResult:
    name = "oci versions"
    if not state.oci_vulnerabilities:
        return _ok(name, "no known vulnerabilities")
    programs = [f"{program}: {', '.join(names)}" for program, names in state.oci_vulnerabilities.items()]
    return _warning(
        name,
        f"known vulnerabilities of {'; '.join(programs)}",
        cost="a hostile image or pod may become root on this machine",
        remedy="install runc 1.2.8, 1.3.3 or newer, crun 1.20 or newer, or a package with the fixes",
    )


def _check_engines(state: MachineState) -> CheckResult:
    name = "engines"
    descriptions = [state.runtimes.usable[kind][1] for kind in (CRI, DOCKER) if kind in state.runtimes.usable]
    if descriptions:
        return _ok(name, "; ".join(descriptions))
    if OCI in state.runtimes.usable:
        return _ok(name, "none, and none is needed")
    return _warning(
        name,
        "; ".join(state.runtimes.errors.get(kind, kind) for kind in (CRI, DOCKER)),
        cost="`--runtime cri` and `--runtime docker` are not available",
        remedy="start containerd, CRI-O or Docker, or use --runtime oci as root",
    )


def _check_overlay(state: MachineState) -> CheckResult:
    name = "overlayfs"
    if "overlay" in state.file_systems:
        return _ok(name, "supported by the kernel")
    return _error(
        name,
        "the kernel has no overlayfs",
        cost="images cannot be shared between containers",
        remedy="modprobe overlay",
    )


def _check_nftables(state: MachineState) -> CheckResult:
    name = "nftables"
    if not state.nft_error:
        return _ok(name, "nft works")
    return _error(
        name,
        state.nft_error,
        cost="no pod network, no services, no network policies",
        remedy="apt-get install nftables; modprobe nf_tables",
    )


def _check_links(state: MachineState) -> CheckResult:
    name = "bridge and veth"
    if missing := [kind for kind in ("bridge", "veth") if kind not in state.link_kinds]:
        return _error(
            name,
            f"the kernel cannot create links of the kind {', '.join(missing)}",
            cost="no pod network",
            remedy=f"modprobe {' '.join(missing)}",
        )
    return _ok(name, "supported by the kernel")


def _check_bridged(state: MachineState) -> CheckResult:
    name = "br_netfilter"
    if state.has_bridge_netfilter:
        return _ok(name, "rules see traffic between pods of one node")
    return _warning(
        name,
        "the kernel has no br_netfilter",
        cost="connections between pods of one node through a service are masqueraded",
        remedy="modprobe br_netfilter",
    )


def _check_frames(state: MachineState) -> CheckResult:
    name = "pod addresses"
    if not state.frame_error:
        return _ok(name, "pods are held to their addresses")
    return _warning(
        name,
        f"the kernel or nft rejects rules for frames: {state.frame_error}",
        cost="a pod with a raw socket uses addresses of other pods, and so passes network policies",
        remedy="modprobe nf_tables_bridge; nftables 1.0.3 or newer",
    )


def _check_tunnels(state: MachineState) -> CheckResult:
    name, tunnels = "tunnels", [kind for kind in ("wireguard", "vxlan") if kind in state.link_kinds]
    if "wireguard" in tunnels:
        return _ok(name, ", ".join(tunnels))
    if tunnels:
        return _warning(
            name,
            "vxlan; the kernel has no wireguard",
            cost="traffic of pods between machines is not encrypted",
            remedy="modprobe wireguard",
        )
    return _warning(
        name,
        "the kernel has neither wireguard nor vxlan",
        cost="`sampan join` works only between machines of one subnet (--pod-network routes)",
        remedy="modprobe wireguard (or vxlan)",
    )


def _check_forwarding(state: MachineState) -> CheckResult:
    name = "ip_forward"
    if state.rootless_shortcomings:
        return _ok(name, "belongs to the user namespace")
    if state.forwards:
        return _ok(name, "net.ipv4.ip_forward is 1")
    return _warning(
        name,
        "net.ipv4.ip_forward is 0",
        cost="the first node switches it on, and the change is lost at the next boot until a node starts",
        remedy="sysctl -w net.ipv4.ip_forward=1",
    )


def _check_forward_policy(state: MachineState) -> CheckResult:
    name = "forward policy"
    if not state.dropping_chains:
        return _ok(name, "no chain drops forwarded packets by policy")
    chains = ", ".join(state.dropping_chains)
    own_iptables = all(" filter FORWARD" in chain for chain in state.dropping_chains)
    if own_iptables:
        return _ok(name, f"{chains} drops by policy; nodes add accept rules for their bridges")
    return _warning(
        name,
        f"{chains} drops forwarded packets by policy",
        cost="pods may not reach other machines, nor be reached",
        remedy="accept forwarded packets of the bridges that `ip link show type bridge` lists",
    )


def _check_resolv_conf(state: MachineState) -> CheckResult:
    name = "resolv.conf"
    if not state.nameservers:
        return _warning(
            name,
            "/etc/resolv.conf names no server",
            cost="pods resolve names of the cluster only",
            remedy="add `nameserver ADDRESS` to /etc/resolv.conf",
        )
    if all(server.startswith("127.") or server == "::1" for server in state.nameservers):
        return _warning(
            name,
            f"only local resolvers: {', '.join(state.nameservers)}",
            cost="pods cannot reach them; DNS of the cluster forwards through the node instead",
            remedy="name the servers of your network, or on systemd use --resolv-conf /run/systemd/resolve/resolv.conf",
        )
    return _ok(name, ", ".join(state.nameservers))


def _check_disk(state: MachineState) -> CheckResult:
    name, free = "disk", state.disk_free_bytes
    share = free / state.disk_bytes if state.disk_bytes else 0.0
    detail = f"{free / 1e9:.0f} GB ({share:.0%}) free in {state.data_directory}"
    if free < _MIN_DISK_BYTES:
        limit = LOCAL_HARD_EVICTION["nodefs.available"]
        return _warning(
            name,
            detail,
            cost=f"image pulls may fail, and below {limit} (nodefs.available, imagefs.available) pods are evicted",
            remedy="free disk space, or use --data-dir on another file system",
        )
    return _ok(name, detail)


def _check_clock(state: MachineState) -> CheckResult:
    name = "clock"
    if state.is_clock_synchronized:
        return _ok(name, "synchronized")
    return _warning(
        name,
        "not synchronized with a time server",
        cost="certificates and tokens of other machines may seem expired or not yet valid",
        remedy="timedatectl set-ntp true (or start chrony)",
    )


def _check_user_namespaces(state: MachineState) -> CheckResult:
    name = "user namespaces"
    if state.user_namespaces and not state.is_userns_restricted:
        outgoing = ", ".join(state.rootless_programs) or "no slirp4netns or pasta for outgoing traffic"
        return _ok(name, f"allowed; {outgoing}")
    detail = "restricted by AppArmor" if state.user_namespaces else "user.max_user_namespaces is 0"
    remedy = "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    return _warning(
        name,
        detail,
        cost="`sampan up` without root cannot isolate pods",
        remedy=remedy if state.user_namespaces else "sysctl -w user.max_user_namespaces=15000",
    )


def _check_nameservers(state: MachineState) -> CheckResult:
    name = "dns"
    if not state.nameservers:
        return _ok(name, "no server to ask")
    if not state.silent_nameservers:
        return _ok(name, "the servers in /etc/resolv.conf respond")
    return _warning(
        name,
        f"no response from {', '.join(state.silent_nameservers)}",
        cost="image pulls fail, and pods cannot resolve names outside of the cluster",
        remedy="check the network, or give working servers with --dns-upstream",
    )


def _check_descriptors(state: MachineState) -> CheckResult:
    name, limit = "open files", state.descriptor_limit
    if limit >= _MIN_DESCRIPTORS:
        return _ok(name, f"up to {limit}")
    return _warning(
        name,
        f"at most {limit} for a process",
        cost="watches and connections of many clients are rejected",
        remedy="ulimit -Hn 65536 as root, or `* hard nofile 65536` in /etc/security/limits.conf",
    )


def _check_leftovers(state: MachineState) -> CheckResult:
    name = "leftovers"
    if not state.vanished_bridges:
        return _ok(name, "none of clusters that are gone")
    return _warning(
        name,
        f"bridges of clusters whose data directory is gone: {', '.join(state.vanished_bridges)}",
        cost="their address ranges cannot be used",
        remedy="sampan down removes them, and so does the next sampan up with real nodes",
    )


def _check_ports(state: MachineState) -> CheckResult:
    name = "ports"
    if not state.busy_ports:
        return _ok(name, "6443 and 10250 are free")
    busy = " and ".join(map(str, state.busy_ports))
    return _ok(name, f"{busy} in use; the next cluster takes other ports")


CHECKS: Sequence[Check] = (
    _check_root,
    _check_cgroups,
    _check_oci,
    _check_oci_versions,
    _check_engines,
    _check_overlay,
    _check_nftables,
    _check_links,
    _check_bridged,
    _check_frames,
    _check_tunnels,
    _check_forwarding,
    _check_forward_policy,
    _check_user_namespaces,
    _check_resolv_conf,
    _check_nameservers,
    _check_disk,
    _check_clock,
    _check_descriptors,
    _check_ports,
    _check_leftovers,
)
