"""The pod network of one node: a bridge, a pair of links for each pod, addresses from the node's podCIDRs.

Pure: `addresses` (which one is next), `ranges` (which range is free), `names` (of links, tables, hardware), `ports`
(host ports), `rules` (nftables text), `forwarding` (what to add where other firewalls refuse). Effects: `records`
(files), `netlink` and `links`, `sysctls` (/proc/sys), `nft` (the program), `consent` (others' firewalls), `flows` (what
the kernel remembers); `machine` has their order. `bridge` puts all of it together, behind the contract
`sampan.runtimes.network.PodNetwork`; `cni` describes the same network to engines that have their own plug-ins, and
`portmap_rest` takes away what one of these leaves.
"""

from sampan.network.pods.bridge import BridgeNetwork, lacking
from sampan.network.pods.cni import CniNetwork
from sampan.network.pods.config import BridgeConfig
from sampan.network.pods.names import bridge_for
from sampan.network.pods.ranges import free_range

__all__ = ["BridgeConfig", "BridgeNetwork", "CniNetwork", "bridge_for", "free_range", "lacking"]
