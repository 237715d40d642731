"""Service: a stable address for a changing set of pods.

`service_types` has the properties that follow from the type, default values and the completion of updates, `families`
decides the IP families and cluster IPs, `allocations` allocates and releases addresses and ports, `validation`
validates; `strategy` combines them. The counterparts are `pkg/registry/core/service` and `ValidateService` in
`pkg/apis/core/validation`.
"""

from sampan.apiserver.handlers import Handlers
from sampan.apiserver.proxy.proxied import proxy_to_service
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.kinds.services.strategy import ServiceStatusStrategy, ServiceStrategy

_strategy = ServiceStrategy()
BEHAVIOR = ResourceBehavior(strategy=_strategy, views={"status": ServiceStatusStrategy(_strategy)})
HANDLERS: Handlers = {"proxy": proxy_to_service}

__all__ = ["BEHAVIOR"]
