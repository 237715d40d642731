"""Properties of the machine: capacity, addresses and system information (`pkg/kubelet/cadvisor`, `pkg/util/node`)."""

from __future__ import annotations

import contextlib
import os
import platform
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sampan.api.kubernetes_version import GIT_VERSION
from sampan.api.types.core_v1 import NodeSystemInfo
from sampan.api.values.quantity import Format, Quantity, parse
from sampan.kubelet.node_status import ARCH, OS

_ELSEWHERE = ("192.0.2.1", "2001:db8::1")
"""Addresses reserved for documentation. No packet is sent to them: connecting a UDP socket to one selects the source
address of the default route.
"""
_NO_WAY_OUT = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    cores: int
    memory_bytes: int
    disk_bytes: int
    """Size of the file system that contains the kubelet's data."""
    huge_pages: Mapping[str, int]
    """Bytes of huge pages by page size."""
    info: NodeSystemInfo
    """System information without the version of the container runtime."""


def read_facts(root: Path) -> MachineFacts:
    disk = os.statvfs(root)
    return MachineFacts(
        cores=os.cpu_count() or 1,
        memory_bytes=memory_total(),
        disk_bytes=disk.f_blocks * disk.f_frsize,
        huge_pages=_huge_pages(Path("/sys/kernel/mm/hugepages")),
        info=NodeSystemInfo(
            machineID=_line("/etc/machine-id") or _line("/var/lib/dbus/machine-id"),
            systemUUID=_line("/sys/class/dmi/id/product_uuid") or _line("/etc/machine-id"),
            bootID=_line("/proc/sys/kernel/random/boot_id"),
            kernelVersion=platform.release(),
            osImage=_os_image(),
            containerRuntimeVersion="",
            kubeletVersion=GIT_VERSION,
            kubeProxyVersion="",
            operatingSystem=OS,
            architecture=ARCH,
        ),
    )


def has_apparmor() -> bool:
    return _line("/sys/module/apparmor/parameters/enabled") == "Y"


def is_in_user_namespace() -> bool:
    """Whether this process is in a user namespace other than the initial one, which maps all UIDs to themselves."""
    text = _line("/proc/self/uid_map")
    return bool(text) and text.split() != ["0", "0", "4294967295"]


def memory_total() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return 0


def _line(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _os_image() -> str:
    with contextlib.suppress(OSError):
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    return "Linux"


def _huge_pages(directory: Path) -> dict[str, int]:
    sizes = {}
    for pool in directory.glob("hugepages-*kB") if directory.is_dir() else ():
        size_kb = int(pool.name.removeprefix("hugepages-").removesuffix("kB"))
        count = int((pool / "nr_hugepages").read_text())
        sizes[_page_size(size_kb)] = count * size_kb * 1024
    return sizes


def _page_size(size_kb: int) -> str:
    for unit, factor in (("Gi", 1 << 20), ("Mi", 1 << 10)):
        if size_kb % factor == 0:
            return f"{size_kb // factor}{unit}"
    return f"{size_kb}Ki"


def capacity(facts: MachineFacts, *, max_pods: int, pods_per_core: int = 0) -> dict[str, str]:
    pods = min(max_pods, pods_per_core * facts.cores) if pods_per_core else max_pods
    return {
        "cpu": str(facts.cores),
        "ephemeral-storage": str(Quantity(facts.disk_bytes, format=Format.DECIMAL_SI)),
        **{f"hugepages-{size}": str(amount) for size, amount in sorted(facts.huge_pages.items())},
        "memory": f"{facts.memory_bytes // 1024}Ki",
        "pods": str(pods),
    }


def allocatable(
    capacity: Mapping[str, str], reserved: Sequence[Mapping[str, str]], eviction_hard: Mapping[str, str]
) -> dict[str, str]:
    """Return the capacity minus the reserved resources and the hard eviction thresholds. Pure."""
    eviction_reserve = {
        "memory": eviction_hard.get("memory.available"),
        "ephemeral-storage": eviction_hard.get("nodefs.available"),
    }
    amounts = dict(capacity)
    for name, text in capacity.items():
        whole = parse(text)
        is_cpu = name == "cpu"
        amount = whole.milli_value() if is_cpu else whole.value()
        owned_reserved = sum(_amount(reservation[name], is_cpu) for reservation in reserved if name in reservation)
        if (threshold := eviction_reserve.get(name)) is not None:
            owned_reserved += threshold_value(threshold, amount)
        if owned_reserved:
            remaining = max(amount - owned_reserved, 0)
            amounts[name] = (
                f"{remaining}m" if is_cpu and remaining % 1000 else str(remaining // 1000 if is_cpu else remaining)
            )
    if (
        "memory" in amounts
        and amounts["memory"] != capacity["memory"]
        and int(parse(amounts["memory"]).value()) % 1024 == 0
    ):
        amounts["memory"] = f"{int(parse(amounts['memory']).value()) // 1024}Ki"
    return amounts


def _amount(text: str, is_cpu: bool) -> int:
    quantity = parse(text)
    return int(quantity.milli_value() if is_cpu else quantity.value())


def threshold_value(text: str, capacity: int) -> int:
    """Return the threshold, which is an amount or a percentage of the capacity, as an amount."""
    if text.endswith("%"):
        return int(float(text[:-1]) / 100 * capacity)
    return int(parse(text).value())


def find_machine_addresses() -> list[str]:
    """Return the source address of the default route for each IP family; without a route, the address of the hostname
    or else the loopback address.
    """
    addresses = []
    for family, elsewhere in zip((socket.AF_INET, socket.AF_INET6), _ELSEWHERE, strict=True):
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as link:
            link.connect((elsewhere, 9))
            addresses.append(str(link.getsockname()[0]))
    return addresses or [_look_up_hostname()]


def _look_up_hostname() -> str:
    with contextlib.suppress(OSError):
        address = socket.gethostbyname(socket.gethostname())
        if not address.startswith("127."):
            return address
    return _NO_WAY_OUT
