"""kube-proxy: traffic to services reaches their endpoints. Its counterpart is `pkg/proxy`.

Pure decisions are in `services` (Service and EndpointSlice objects to service ports with the endpoints that this node
uses, `CategorizeEndpoints` of the real proxy). `tracker` follows the objects and returns what changed since the last
sync.
"""

from sampan.network.proxy.services import (
    EndpointCategories,
    EndpointInfo,
    ServicePortInfo,
    ServicePortName,
    ServicePortState,
    Topology,
)
from sampan.network.proxy.tracker import ServiceChange, ServiceTracker

__all__ = [
    "EndpointCategories",
    "EndpointInfo",
    "ServiceChange",
    "ServicePortInfo",
    "ServicePortName",
    "ServicePortState",
    "ServiceTracker",
    "Topology",
]
