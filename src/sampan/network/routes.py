"""The routes that Sampan adds, which it recognizes by their protocol numbers (`ip route show proto NUMBER`).

A number says what routes are for. The owning cluster is named by the alias of their link (pod CIDRs and load
balancers), or identified by their metric (mesh), as routes of several clusters may use one link.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

from sampan.host.netlink import constants as nl
from sampan.host.netlink.netlink_socket import NetlinkSocket
from sampan.host.netlink.routing import RouteInfo, list_routes

POD_CIDR_PROTOCOL: Final = 83
"""Routes to the pod CIDRs of the nodes on a bridge."""
LOAD_BALANCER_PROTOCOL: Final = 84
"""Routes of the machine to the addresses of load balancers."""
MESH_PROTOCOL: Final = 85
"""Routes to the pod CIDRs of other machines."""
_LAST_METRIC: Final = 0xFFFFFFFE


def default_route(index: int, gateway: str) -> RouteInfo:
    destination = "0.0.0.0/0" if ip_address(gateway).version == 4 else "::/0"
    return RouteInfo(destination=destination, gateway=gateway, link=index, protocol=nl.RTPROT_STATIC)


def unreachable_route(cidr: str) -> RouteInfo:
    """Return the route that rejects packets to the destination for which there is no other route."""
    return RouteInfo(destination=cidr, protocol=POD_CIDR_PROTOCOL, type=nl.RTN_UNREACHABLE, metric=_LAST_METRIC)


def gateways_through(netlink: NetlinkSocket, index: int, protocol: int) -> dict[str, str]:
    """Return the gateways of the routes of a protocol through a link, by destination."""
    return {
        route.destination: route.gateway
        for route in list_routes(netlink)
        if (route.protocol, route.link, route.type) == (protocol, index, nl.RTN_UNICAST)
    }
