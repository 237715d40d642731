"""kube-proxy: traffic to services reaches their endpoints. Its counterpart is `pkg/proxy`.

Pure decisions are in `services` (Service and EndpointSlice objects to service ports with the endpoints that this node
uses, `CategorizeEndpoints` of the real proxy). `tracker` follows the objects and returns what changed since the last
sync.

The nftables mode: `layout` (names and static rules of the table), `compiler` (services to rules, with the statements in
`expressions` and `families`), `table_state` (what is committed, and the update to new states of services),
`operations` (text and netlink messages of changes) and `config` are pure. `nfnetlink` speaks to the kernel,
`proxy_table` writes and checks a table, `table_sync` decides between a full and a partial sync, and `proxy` runs all of
it for a node.

Around the rules: `configuration` (KubeProxyConfiguration), `metrics` and `health` (/healthz, /livez), and what follows
the services of a node after each sync (`observer`): `health_checks` (health-check node ports) and `conntrack` (stale
UDP flows; `conntrack_table` reads the kernel's table, `conntrack_sysctls` sets its limits).

In user space: `balancer` chooses endpoints, `endpoint_sockets` connects to them, `localhost_ports` makes node ports
reachable by localhost; `userspace` is a whole proxy for machines without packet rules, driven by `service_follower`.

`firewall` keeps other firewalls from dropping traffic of services, `metrics_port` serves metrics, and `node_proxy` runs
the proxy of the chosen mode with everything around it.
"""

from sampan.network.proxy.config import ProxyConfig, supported_families
from sampan.network.proxy.proxy import Proxy
from sampan.network.proxy.services import (
    EndpointCategories,
    EndpointInfo,
    ServicePortInfo,
    ServicePortName,
    ServicePortState,
    Topology,
)
from sampan.network.proxy.table_sync import remove_tables
from sampan.network.proxy.tracker import ServiceChange, ServiceTracker

__all__ = [
    "EndpointCategories",
    "EndpointInfo",
    "Proxy",
    "ProxyConfig",
    "ServiceChange",
    "ServicePortInfo",
    "ServicePortName",
    "ServicePortState",
    "ServiceTracker",
    "Topology",
    "remove_tables",
    "supported_families",
]
