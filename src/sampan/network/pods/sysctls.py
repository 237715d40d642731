"""The sysctls that a pod network needs. Changes are logged and never reverted, as others may rely on them."""

from __future__ import annotations

import logging
import shutil
import subprocess
from collections.abc import Collection
from pathlib import Path

from sampan.network.pods.config import network_failure

log = logging.getLogger(__name__)

_NET = Path("/proc/sys/net")
_BRIDGED = ("bridge/bridge-nf-call-iptables", "bridge/bridge-nf-call-ip6tables")


def enable_host_forwarding(versions: Collection[int]) -> None:
    """Enable IP forwarding."""
    if 4 in versions:
        put("ipv4/ip_forward", "1")
    if 6 in versions:
        if get("ipv6/conf/all/forwarding") == "0":
            _keep_router_advertisements()
        put("ipv6/conf/all/forwarding", "1")


def enable_forwarding(versions: Collection[int]) -> None:
    """Enable IP forwarding in a network namespace that belongs to Sampan alone."""
    for version, name in ((4, "ipv4/ip_forward"), (6, "ipv6/conf/all/forwarding")):
        if version in versions:
            put(name, "1", is_logged=False)


def enable_bridge_netfilter() -> bool:
    """Make bridged traffic visible to netfilter; return whether the kernel supports it."""
    if not (_NET / _BRIDGED[0]).exists() and (modprobe := shutil.which("modprobe")):
        subprocess.run([modprobe, "--quiet", "br_netfilter"], capture_output=True, check=False, timeout=30)
    if not (_NET / _BRIDGED[0]).exists():
        return False
    for name in _BRIDGED:
        put(name, "1")
    return True


def configure_bridge(bridge: str, versions: Collection[int]) -> None:
    """Configure the bridge. Must be called before it is brought up."""
    if 4 in versions:
        put(f"ipv4/conf/{bridge}/route_localnet", "1", is_logged=False)  # for host ports on 127.0.0.1
    configure_link(bridge, versions)


def configure_link(link: str, versions: Collection[int]) -> None:
    """Configure a link before it is brought up; for a pod's link inside its network namespace.

    Router advertisements are ignored, duplicate address detection, which takes seconds, is disabled, and the link-local
    address is derived from the hardware address.
    """
    if (_NET / "ipv6/conf" / link).exists():
        put(f"ipv6/conf/{link}/accept_ra", "0", is_logged=False)
        put(f"ipv6/conf/{link}/accept_dad", "0", is_logged=False)
        put(f"ipv6/conf/{link}/addr_gen_mode", "0", is_logged=False)  # EUI-64, by which frames are checked
        if 6 in versions:
            put(f"ipv6/conf/{link}/disable_ipv6", "0", is_logged=False)


def _keep_router_advertisements() -> None:
    """Set accept_ra=2, as a forwarding node ignores router advertisements otherwise and may lose its default route."""
    for directory in (_NET / "ipv6/conf").iterdir():
        name = f"ipv6/conf/{directory.name}/accept_ra"
        if directory.name not in ("all", "default", "lo") and get(name) == "1":
            put(name, "2")


def get(name: str) -> str:
    try:
        return (_NET / name).read_text().strip()
    except OSError as error:
        raise network_failure(f"the kernel has no setting net/{name}: {error.strerror}") from None


def put(name: str, value: str, *, is_logged: bool = True) -> None:
    if get(name) == value:
        return
    try:
        (_NET / name).write_text(value)
    except OSError as error:
        raise network_failure(
            f"net.{name.replace('/', '.')} must be {value}, and cannot be set: {error.strerror}"
        ) from None
    if is_logged:
        log.warning("set sysctl net.%s to %s, which the pod network needs", name.replace("/", "."), value)
