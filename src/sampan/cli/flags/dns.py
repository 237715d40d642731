"""The flags of the DNS server of the cluster, which `sampan up` and `sampan kube-dns` share."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sampan.cli.flags import parsers
from sampan.cli.flags.flag_table import Flag
from sampan.machinery.cli_errors import CliError
from sampan.network.dns.config import ClusterDnsConfig, DnsServerConfig, ForwarderConfig, ZoneConfig
from sampan.network.dns.upstreams import UpstreamAddress, UpstreamConfig
from sampan.network.dns.wire import MalformedMessage, name_bytes

DNS_FLAGS = (
    Flag(name="--cluster-domain", help="DNS domain of the cluster.", default="cluster.local", metavar="DOMAIN"),
    Flag(
        name="--resolv-conf",
        help="Resolver configuration file with the resolvers to which DNS queries for names outside of the cluster are "
        "forwarded. Default: /etc/resolv.conf, or the file with the upstream resolvers of systemd-resolved.",
        metavar="F",
    ),
    Flag(
        name="--dns-upstream",
        help="Resolver to which DNS queries for names outside of the cluster are forwarded, instead of those in "
        "--resolv-conf; may be repeated.",
        metavar="IP[:PORT]",
        is_repeatable=True,
    ),
    Flag(
        name="--dns-stub-domain",
        help="DNS domain with resolvers of its own; may be repeated.",
        metavar="DOMAIN=IP[:PORT],…",
        is_repeatable=True,
    ),
    Flag(
        name="--dns-client-cidrs",
        help="CIDRs of clients that the DNS server responds to beside nodes and pods, comma-separated.",
        default="",
        metavar="CIDR,…",
    ),
    Flag(name="--dns-port", help="Port of the DNS server of a node.", default=10053, type=int),
)


def dns_config(options: Mapping[str, Any]) -> ClusterDnsConfig:
    domain = _domain("--cluster-domain", options["cluster_domain"])
    upstreams = UpstreamConfig(
        servers=_addresses("--dns-upstream", options["dns_upstream"]),
        resolv_conf=_resolv_conf("--resolv-conf", options["resolv_conf"]),
        stub_domains=dict(_stub_domain("--dns-stub-domain", text) for text in options["dns_stub_domain"]),
    )
    return ClusterDnsConfig(
        zone=ZoneConfig(domain),
        forwarder=ForwarderConfig(upstreams=upstreams),
        server=DnsServerConfig(port=parsers.port("--dns-port", options["dns_port"])),
        client_cidrs=_cidrs("--dns-client-cidrs", options["dns_client_cidrs"]),
    )


def _domain(flag: str, text: str) -> str:
    domain = text.strip().rstrip(".").lower()
    try:
        if not domain or len(name_bytes(domain)) > 120 or not domain.isascii():
            raise MalformedMessage
    except MalformedMessage:
        raise CliError(f"{flag}: {text!r} is no DNS domain") from None
    return domain


def _addresses(flag: str, texts: Iterable[str]) -> list[UpstreamAddress]:
    try:
        return [UpstreamAddress.parse(text) for text in texts]
    except ValueError as error:
        raise CliError(f"{flag}: want an IP address, perhaps with a port: {error}") from None


def _stub_domain(flag: str, text: str) -> tuple[str, list[UpstreamAddress]]:
    domain, equals, servers = text.partition("=")
    if not equals or not servers:
        raise CliError(f"{flag}: want DOMAIN=IP[:PORT], not {text!r}")
    return _domain(flag, domain), _addresses(flag, parsers.words(flag, servers))


def _cidrs(flag: str, text: str) -> list[str]:
    try:
        return [str(ipaddress.ip_network(word, strict=False)) for word in parsers.words(flag, text)]
    except ValueError as error:
        raise CliError(f"{flag}: {error}") from None


def _resolv_conf(flag: str, path: str | None) -> Path | None:
    """Check that the file can be read, so that a wrong name is reported at the start."""
    if not path:
        return None
    parsers.file_text(flag, path)
    return Path(path).absolute()
