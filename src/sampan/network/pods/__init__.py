"""The pod network of one node: a bridge, a veth pair per pod, and addresses from the node's pod CIDRs.

The pure part is `addresses` (allocation), `ranges` (unused CIDRs), `names` (of links, tables and hardware addresses),
`ports` (host ports), `rules` (nftables text) and `forwarding` (additions to other firewalls). Effects are in `records`
(files), `netlink` and `links`, `sysctls` (/proc/sys), `nft` (the program), `consent` (rules in other firewalls) and
`flows` (conntrack entries); `machine` orders them. `bridge` combines them behind the interface
`sampan.runtimes.network.PodNetwork`. `cni` configures the same network for runtimes that use CNI plug-ins, and
`portmap_rest` removes what the portmap plug-in leaves behind.
"""

from sampan.network.pods.bridge import BridgeNetwork, lacking
from sampan.network.pods.cni import CniNetwork
from sampan.network.pods.config import BridgeConfig
from sampan.network.pods.names import bridge_for
from sampan.network.pods.ranges import free_range

__all__ = ["BridgeConfig", "BridgeNetwork", "CniNetwork", "bridge_for", "free_range", "lacking"]
