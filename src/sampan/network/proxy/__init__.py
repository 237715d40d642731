"""kube-proxy: traffic to services reaches their endpoints. Its counterpart is `pkg/proxy`.

Pure decisions are in `services` (Service and EndpointSlice objects to service ports with the endpoints that this node
uses, `CategorizeEndpoints` of the real proxy). `tracker` follows the objects and returns what changed since the last
sync.

The modes: `nftables` compiles services to packet rules; `userspace` relays connections in the process of the proxy,
driven by `service_follower`. `proxy_config` has the settings that the rules depend on.

Around the rules: `kube_proxy_configuration` and `kube_proxy_validation` (KubeProxyConfiguration), `metrics` (with the
metrics port) and `health` (/healthz, /livez), and what follows the services of a node after each sync
(`ServiceObserver` in `tracker`): the health-check node ports of `health`, `conntrack` (stale UDP flows) and the node
ports on localhost.

`firewall` keeps other firewalls from dropping traffic of services, and `node_proxy` runs the proxy of the chosen mode
with everything around it.
"""

from sampan.network.proxy.nftables.proxy import NftablesProxy
from sampan.network.proxy.nftables.table_sync import remove_tables
from sampan.network.proxy.proxy_config import ProxyConfig, supported_families
from sampan.network.proxy.services import (
    EndpointCategories,
    EndpointInfo,
    ProxyTopology,
    ServicePortInfo,
    ServicePortName,
    ServicePortState,
)
from sampan.network.proxy.tracker import ServiceChange, ServiceTracker

__all__ = [
    "EndpointCategories",
    "EndpointInfo",
    "NftablesProxy",
    "ProxyConfig",
    "ProxyTopology",
    "ServiceChange",
    "ServicePortInfo",
    "ServicePortName",
    "ServicePortState",
    "ServiceTracker",
    "remove_tables",
    "supported_families",
]
