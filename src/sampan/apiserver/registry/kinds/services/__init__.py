"""Service: a stable address for a changing set of pods.

`defaults` sets default values, `changes` completes updates, `families` decides the IP families, `needs` which addresses
and ports to allocate, `holdings` allocates and releases them, `validation` and `cluster_ips` validate, `columns` is the
table. The counterparts are `pkg/registry/core/service` and `ValidateService` in `pkg/apis/core/validation`.
"""

from sampan.apiserver.proxy.proxied import proxy_to_service
from sampan.apiserver.registry.behaviour import ResourceBehaviour
from sampan.apiserver.registry.kinds.services.strategy import ServiceStatusStrategy, ServiceStrategy

_strategy = ServiceStrategy()
BEHAVIOUR = ResourceBehaviour(
    strategy=_strategy, views={"status": ServiceStatusStrategy(_strategy)}, handlers={"proxy": proxy_to_service}
)

__all__ = ["BEHAVIOUR"]
