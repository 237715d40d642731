"""The nodes of one machine, each with a network namespace and an address of its own, on a bridge of the cluster.

They resemble the nodes of `kind`, which are containers: every node has its own ports, rules and routes, and removing
its namespace removes all of them. `attachment` says where a node works. `addresses` (and names of nodes) and `routes`
(to pod CIDRs) are pure; `host_bridge` changes the machine; `node_bridge` combines them behind the interface
`NodeAttachments`. Nodes whose runtime uses the network of the machine have `HostAttachments` instead.
"""

from sampan.network.nodes.addresses import bridge_of_nodes, cluster_mark, ipv6_cidr, namespace_file
from sampan.network.nodes.attachment import HostAttachments, NodeAttachment, NodeAttachments
from sampan.network.nodes.host_bridge import NodeBridgeConfig, NodeNetworkError, remove_bridge, unsupported_reason
from sampan.network.nodes.node_bridge import NodeBridge

__all__ = [
    "HostAttachments",
    "NodeAttachment",
    "NodeAttachments",
    "NodeBridge",
    "NodeBridgeConfig",
    "NodeNetworkError",
    "bridge_of_nodes",
    "cluster_mark",
    "ipv6_cidr",
    "namespace_file",
    "remove_bridge",
    "unsupported_reason",
]
