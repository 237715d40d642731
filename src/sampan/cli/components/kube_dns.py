"""`sampan kube-dns`: the DNS server of a node as a separate process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from sampan.cli.components.component import ACCESS_FLAGS, VERBOSITY_FLAG, access_of
from sampan.cli.flags import parsers
from sampan.cli.flags.dns import DNS_FLAGS, dns_config
from sampan.cli.flags.flag_table import Flag, add_flags
from sampan.cli.local_cluster.server_process import on_signals, run_loop, set_up_logs
from sampan.host.clock import RealClock
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.machinery.cli_errors import CliError
from sampan.machinery.client import Client
from sampan.machinery.client.http import HttpTransport
from sampan.machinery.informer import InformerFactory

if TYPE_CHECKING:
    from sampan.machinery.client.access import Access
    from sampan.network.dns.config import ClusterDnsConfig

NAME = "kube-dns"

_FLAGS = (
    *ACCESS_FLAGS,
    Flag(
        name="--node-name",
        help="Name of the node that this server belongs to. Default: the name of this machine.",
        default="",
        metavar="NAME",
    ),
    Flag(
        name="--bind-address",
        help="IP addresses of the node on which DNS, health checks and metrics are served, comma-separated. Default: "
        "the addresses of this machine.",
        default="",
        metavar="A,…",
    ),
    Flag(
        name="--service-cluster-ip-range",
        help="Service CIDRs, comma-separated: the service kube-dns is created at the tenth address if it does not "
        "exist. Default: the service is left alone.",
        default="",
        metavar="CIDR,…",
    ),
    *DNS_FLAGS,
    VERBOSITY_FLAG,
)


@click.command(NAME)
@add_flags(_FLAGS)
def command(**options: Any) -> None:
    """Run the DNS server of the cluster on this node.

    It serves the names of services and pods, forwards other names to the resolvers of this machine, and adds itself to
    the endpoints of the service kube-dns.
    """
    set_up_logs(options["verbosity"])
    run_loop(_run(dns_config(options), access_of(options["master"], options["kubeconfig"]), options))


async def _run(config: ClusterDnsConfig, access: Access, options: Mapping[str, Any]) -> None:
    from sampan.network.dns.cluster_dns import ClusterDns
    from sampan.network.dns.publication import dns_addresses, ensure_dns_service

    loop, task, clock = asyncio.get_running_loop(), asyncio.current_task(), RealClock()
    assert task is not None
    addresses, node = _addresses(options["bind_address"]), options["node_name"] or socket.gethostname().lower()
    try:
        async with HttpTransport(access) as transport:
            client = Client(transport=transport, clock=clock, component=NAME)
            on_signals(loop, task.cancel)
            if ranges := options["service_cluster_ip_range"]:
                parsers.network("--service-cluster-ip-range", ranges)
                await ensure_dns_service(client, dns_addresses(ranges))
            async with (
                InformerFactory(client=client) as informers,
                ClusterDns(config=config, client=client, informers=informers, clock=clock) as cluster_dns,
            ):
                click.echo(f"{NAME} has started; other names are forwarded to {cluster_dns.forwarder.choice}")
                await cluster_dns.server_of(node=node, namespace=NetworkNamespace(), addresses=addresses).run()
    except asyncio.CancelledError:
        return


def _addresses(text: str) -> list[str]:
    if text:
        return [parsers.address("--bind-address", word) for word in parsers.words("--bind-address", text)]
    from sampan.kubelet.agent.machine import find_machine_addresses

    addresses = list(find_machine_addresses())
    if not addresses:
        raise CliError("--bind-address: this machine has no address; give one")
    return addresses
