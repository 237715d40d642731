"""The pod network of one node: a bridge, a veth pair per pod, and addresses from the node's pod CIDRs.

It does what the CNI plugins bridge, host-local and portmap do for containerd. The pure part is `addresses` (allocation
and unused CIDRs), `config` (with the names of links, tables and hardware addresses) and `rules` (nftables text, also of
host ports). Effects are in `records` (files), `links` (netlink), `sysctls` (/proc/sys), `nft` (the program),
`firewall` (rules in other firewalls) and `frame_rules` (the rules of `frame_table`, which hold pods to their
addresses); `host_network` orders them. `bridge` combines them behind the
interface `sampan.runtimes.network.PodNetwork`; network policies take effect through `PodIsolation` beside it. `cni`
configures the same network for runtimes that use CNI plugins.
"""

from sampan.network.pods.addresses import free_cidr
from sampan.network.pods.bridge import BridgeNetwork
from sampan.network.pods.cni import CniNetwork
from sampan.network.pods.config import BridgeConfig, bridge_for
from sampan.network.pods.host_network import unsupported_reason

__all__ = ["BridgeConfig", "BridgeNetwork", "CniNetwork", "bridge_for", "free_cidr", "unsupported_reason"]
