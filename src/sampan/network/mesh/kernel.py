"""Which tunnels the kernel of this machine can create."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

WIREGUARD, VXLAN, BRIDGE, VETH = "wireguard", "vxlan", "bridge", "veth"
_CLONE_NEWNET = 0x40000000
_ATTRIBUTES: Mapping[str, Mapping[str, object]] = MappingProxyType(
    {VXLAN: {"vxlan_id": 1, "vxlan_port": 4789, "vxlan_learning": False}, VETH: {"peer": "probe1"}}
)


@functools.cache
def can_create(kind: str) -> bool:
    """Whether the kernel can create links of a kind, such as wireguard. It is tried in a new network namespace, which
    is gone afterwards; without root, the loaded and built-in modules are searched."""
    results: list[bool] = []

    def probe() -> None:
        if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET) != 0:
            results.append(_has_module(kind))
            return
        results.append(_can_add(kind))

    thread = threading.Thread(target=probe, name=f"probe for links of the kind {kind}")
    thread.start()
    thread.join()
    return bool(results and results[0])


def _can_add(kind: str) -> bool:
    from pyroute2 import IPRoute, NetlinkError

    with contextlib.suppress(NetlinkError, OSError), IPRoute() as netlink:
        netlink.link("add", ifname="probe0", kind=kind, **_ATTRIBUTES.get(kind, {}))
        return True
    return False


def _has_module(kind: str) -> bool:
    if Path("/sys/module", kind).exists():
        return True
    release = Path("/proc/sys/kernel/osrelease").read_text().strip()
    for name in ("modules.builtin", "modules.dep"):
        with contextlib.suppress(OSError):
            if f"/{kind}.ko" in (Path("/lib/modules") / release / name).read_text():
                return True
    return False
