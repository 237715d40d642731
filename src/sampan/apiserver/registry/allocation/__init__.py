"""Allocation of cluster IPs and node ports for services.

Nothing is kept in memory: an address is allocated by creating its IPAddress object, a port by a compare-and-swap of the
bitmap in the store. So several API servers on one store never allocate the same value twice, and data can be moved to
and from a kube-apiserver. This package records allocations; `kinds.services` decides what a service needs. The
counterparts are `ipallocator` and `portallocator` in `pkg/registry/core/service`.
"""

from sampan.apiserver.registry.allocation.addresses import AddressAllocator
from sampan.apiserver.registry.allocation.node_ports import NodePortAllocator
from sampan.apiserver.registry.allocation.ranges import AllocationError, AllocatorFull, ServiceRanges, family_of
from sampan.apiserver.registry.allocation.repair import AllocationRepair

__all__ = [
    "AddressAllocator",
    "AllocationError",
    "AllocationRepair",
    "AllocatorFull",
    "NodePortAllocator",
    "ServiceRanges",
    "family_of",
]
