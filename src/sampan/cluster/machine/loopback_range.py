"""The loopback addresses of services of clusters whose proxies work in user space.

Each cluster of a machine has a range of its own, so that clusters with the same service CIDR do not clash.
"""

from __future__ import annotations

import os

from sampan.cluster.machine.host_locks import HostLocks
from sampan.machinery.loopback_services import LoopbackServices, lowest_unprivileged_port
from sampan.network.nodes import NodeAttachment

_MAX_CLUSTERS = 8
"""The number of clusters of a machine with ranges of their own. Certificates name the addresses of all ranges."""


def is_proxied_in_user_space(attachment: NodeAttachment) -> bool:
    """Whether the services of a node are proxied in user space, because the node shares the network of a machine
    without root."""
    return attachment.namespace.path is None and os.geteuid() != 0


def loopback_services(locks: HostLocks) -> LoopbackServices:
    """Return the first range of loopback addresses that no other cluster uses; it is the same for all nodes of a
    cluster."""
    ranges = (shift for shift in range(_MAX_CLUSTERS) if locks.acquire(f"loopback services {shift}"))
    return LoopbackServices(
        lowest_port=lowest_unprivileged_port(is_privileged=os.geteuid() == 0), shift=next(ranges, 0)
    )


def loopback_addresses(cluster_ip: str) -> list[str]:
    """Return the loopback addresses at which a service with that cluster IP can be reachable."""
    addresses = (LoopbackServices(shift=shift).address_of(cluster_ip) for shift in range(_MAX_CLUSTERS))
    return [address for address in addresses if address]
