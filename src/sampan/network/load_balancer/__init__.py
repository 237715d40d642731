"""The load balancers of `sampan up`: an address that is reachable from the machine for every service of type
LoadBalancer. The counterpart is a cloud provider, or MetalLB.

`addresses` allocates, and is pure. `provider` is what the service-lb-controller calls. `routes` decides which node
receives the traffic of an address, and directs it there, and to another one when the node dies. kube-proxy of that node
does the rest.
"""

from sampan.network.load_balancer.provider import EmbeddedLoadBalancers, EmbeddedProvider, LoadBalancerError, NoRoutes
from sampan.network.load_balancer.routes import LoadBalancerRoutes

__all__ = ["EmbeddedLoadBalancers", "EmbeddedProvider", "LoadBalancerError", "LoadBalancerRoutes", "NoRoutes"]
