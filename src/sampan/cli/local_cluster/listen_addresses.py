"""The addresses on which `sampan up` listens.

A cluster is meant for the local machine: the API server listens on the loopback addresses and, if there are real nodes,
on the address of the node, through which pods reach it. `--bind-address` replaces these.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping
from typing import Any

from sampan.api.addresses import join_host_port
from sampan.apiserver.config.server_config import ServerConfig
from sampan.cli.flags import parsers
from sampan.cli.flags.api_server import resolve_advertise_address
from sampan.cluster.nodes.nodes_config import NodesConfig
from sampan.kubelet.agent.machine import find_machine_addresses

LOOPBACK, LOOPBACK_V6 = "127.0.0.1", "::1"


def server_addresses(options: Mapping[str, Any], nodes: NodesConfig) -> list[str]:
    """Return the addresses of the secure port."""
    if options["bind_address"]:
        return [parsers.address("--bind-address", options["bind_address"])]
    addresses = [LOOPBACK, *([LOOPBACK_V6] if is_own(LOOPBACK_V6) else [])]
    outside = find_machine_addresses() if nodes.real_count else []
    if nodes.real_count or options["advertise_address"]:
        outside.append(resolve_advertise_address(options))
    return list(dict.fromkeys([*addresses, *filter(is_own, outside)]))


def kubelet_address(options: Mapping[str, Any]) -> str:
    """Return the address on which the kubelets of `sampan up` listen. The API server of the same process calls them
    directly, so that they are reachable from other machines only if --bind-address allows it."""
    return parsers.address("--bind-address", options["bind_address"]) if options["bind_address"] else LOOPBACK


def is_own(address: str) -> bool:
    """Whether this machine has the address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def join_address(config: ServerConfig, port: int) -> str:
    """Return the address and port at which other machines reach the API server, or an empty string if it listens on
    loopback addresses only."""
    bound = [ipaddress.ip_address(address) for address in (config.bind_address, *config.other_bind_addresses)]
    if not port or all(address.is_loopback for address in bound):
        return ""
    advertised_address = ipaddress.ip_address(config.advertise_address)
    reachable = [address for address in bound if not address.is_loopback and not address.is_unspecified]
    is_everywhere = any(address.is_unspecified for address in bound)
    best = advertised_address if is_everywhere or advertised_address in reachable else reachable[0]
    return join_host_port(str(best), port)


def pods_warning(config: ServerConfig, nodes: NodesConfig) -> str:
    """Return why the pods of real nodes cannot reach the API server, or an empty string if they can.

    Pods reach it at the advertised address, to which the service `kubernetes` leads."""
    bound = [ipaddress.ip_address(address) for address in (config.bind_address, *config.other_bind_addresses)]
    if not nodes.real_count or not config.advertise_address or any(address.is_unspecified for address in bound):
        return ""
    if ipaddress.ip_address(config.advertise_address) in bound:
        return ""
    return (
        f"pods cannot reach the API server: the service kubernetes leads to {config.advertise_address}, but the server "
        f"listens only on {', '.join(map(str, bound))}; start without --bind-address, or with an address of this "
        "machine that is not loopback"
    )


def certificate_names(options: Mapping[str, Any]) -> list[str]:
    """Return the addresses other than loopback for the serving certificate, through which clients may reach the API
    server."""
    names = [resolve_advertise_address(options), *find_machine_addresses()]
    if options["bind_address"]:
        bound = ipaddress.ip_address(parsers.address("--bind-address", options["bind_address"]))
        names += [] if bound.is_unspecified else [str(bound)]
    return list(dict.fromkeys(names))
