"""Service: a stable address for pods that come and go.

`defaults` and `changes` say what the server fills in, `families` settles which address families a service has,
`holdings` takes and gives back addresses and node ports, `validation` and `cluster_ips` find faults, `columns` are its
table.
"""

from sampan.apiserver.proxy.proxied import proxy_to_service
from sampan.apiserver.registry.kinds.services.strategy import ServiceStatusStrategy, ServiceStrategy
from sampan.apiserver.registry.served import Served

_strategy = ServiceStrategy()
SERVED = Served(
    strategy=_strategy, views={"status": ServiceStatusStrategy(_strategy)}, handlers={"proxy": proxy_to_service}
)

__all__ = ["SERVED"]
