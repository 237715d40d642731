"""The conntrack sysctls of kube-proxy: size of the table, timeouts, liberal mode."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from sampan.network.proxy.configuration import ConntrackConfiguration, seconds

log = logging.getLogger(__name__)

_SYSCTLS = Path("/proc/sys/net/netfilter")
_HASH_SIZE = Path("/sys/module/nf_conntrack/parameters/hashsize")
_MOST_ENTRIES = 1 << 20
"""The limit of a computed table size, which keeps the memory of machines with many CPUs in bounds."""
_MAX = "nf_conntrack_max"


def conntrack_sysctls(configuration: ConntrackConfiguration, cpus: int) -> dict[str, int]:
    """Return the values to set by name. Pure."""
    return dict(_values(configuration, cpus))


def _values(configuration: ConntrackConfiguration, cpus: int) -> Iterator[tuple[str, int]]:
    if configuration.maxPerCore:
        scaled = configuration.maxPerCore * cpus
        yield _MAX, _MOST_ENTRIES if scaled > _MOST_ENTRIES else max(scaled, configuration.min or 0)
    for name, duration in (
        ("nf_conntrack_tcp_timeout_established", configuration.tcpEstablishedTimeout),
        ("nf_conntrack_tcp_timeout_close_wait", configuration.tcpCloseWaitTimeout),
        ("nf_conntrack_udp_timeout", configuration.udpTimeout),
        ("nf_conntrack_udp_timeout_stream", configuration.udpStreamTimeout),
    ):
        if seconds(duration) >= 1:
            yield name, int(seconds(duration))
    if configuration.tcpBeLiberal:
        yield "nf_conntrack_tcp_be_liberal", 1


def apply_conntrack_sysctls(configuration: ConntrackConfiguration) -> None:
    """Set the sysctls in the network namespace of the calling thread. Blocks.

    A sysctl that cannot be set is logged: services work without it. The table size belongs to the machine: namespaces
    of nodes cannot change it, and it is never reduced, because other programs may rely on it.
    """
    _load_module()
    for name, value in conntrack_sysctls(configuration, os.cpu_count() or 1).items():
        file = _SYSCTLS / name
        try:
            current = int(file.read_text())
            if current == value or (name == _MAX and current > value):
                continue
            file.write_text(str(value))
        except (OSError, ValueError) as error:
            is_of_machine = name == _MAX and isinstance(error, PermissionError)
            log.log(logging.INFO if is_of_machine else logging.WARNING, "cannot set sysctl %s: %s", name, error)
            continue
        log.info("set sysctl net.netfilter.%s to %d", name, value)
        if name == _MAX:
            _grow_hash_table(value // 4)


def _load_module() -> None:
    if not _SYSCTLS.exists() and (modprobe := shutil.which("modprobe")):
        subprocess.run([modprobe, "--quiet", "nf_conntrack"], capture_output=True, check=False, timeout=30)


def _grow_hash_table(size: int) -> None:
    try:
        if int(_HASH_SIZE.read_text()) < size:
            _HASH_SIZE.write_text(str(size))
    except (OSError, ValueError) as error:
        log.warning("cannot set the size of the conntrack hash table to %d: %s", size, error)
