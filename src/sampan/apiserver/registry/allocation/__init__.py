"""What services take from the cluster: addresses out of its networks, ports on its nodes.

Nothing is kept in the server's memory: an address is taken by creating its IPAddress object, a port by a compare and
swap of the bitmap that the store holds. So several API servers on one store never give the same thing twice, and data
can move to and from a real server. What belongs here: who has what. `kinds.services` decides what a service needs.
"""

from sampan.apiserver.registry.allocation.addresses import AddressAllocator
from sampan.apiserver.registry.allocation.failures import AllocationError, RangeFull
from sampan.apiserver.registry.allocation.node_ports import NodePortAllocator
from sampan.apiserver.registry.allocation.ranges import ServiceRanges, family_of
from sampan.apiserver.registry.allocation.repair import AllocationRepair

__all__ = [
    "AddressAllocator",
    "AllocationError",
    "AllocationRepair",
    "NodePortAllocator",
    "RangeFull",
    "ServiceRanges",
    "family_of",
]
