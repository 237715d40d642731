"""The pod network of one node: a bridge, a veth pair per pod, and addresses from the node's pod CIDRs.

It does what the CNI plug-ins bridge, host-local and portmap do for containerd. The pure part is `addresses` (allocation
and unused CIDRs), `names` (of links, tables and hardware addresses), `ports` (host ports) and `rules`
(nftables text). Effects are in `records` (files), `links` (netlink), `sysctls` (/proc/sys), `nft` (the program),
and `firewall` (rules in other firewalls); `host_network` orders them. `bridge` combines them behind the
interface `sampan.runtimes.network.PodNetwork`; network policies take effect through `PodIsolation` beside it. `cni`
configures the same network for runtimes that use CNI plug-ins.
"""

from sampan.network.pods.addresses import free_cidr
from sampan.network.pods.bridge import BridgeNetwork
from sampan.network.pods.cni import CniNetwork
from sampan.network.pods.config import BridgeConfig
from sampan.network.pods.host_network import unsupported_reason
from sampan.network.pods.names import bridge_for

__all__ = ["BridgeConfig", "BridgeNetwork", "CniNetwork", "bridge_for", "free_cidr", "unsupported_reason"]
