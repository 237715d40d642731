"""The configuration of the DNS servers of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sampan.network.dns.upstreams import UpstreamConfig
from sampan.network.dns.wire import name_bytes


@dataclass(frozen=True, slots=True)
class ZoneConfig:
    """The cluster domain and the TTLs of its records."""

    domain: str = "cluster.local"
    ttl_s: int = 5
    negative_ttl_s: int = 5

    @property
    def name(self) -> bytes:
        return name_bytes(self.domain)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwarderConfig:
    upstreams: UpstreamConfig = field(default_factory=UpstreamConfig)
    max_in_flight: int = 1000
    """The number of different questions under way; further ones are refused."""
    cache_size: int = 9984
    """The number of responses in the cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DnsServerConfig:
    port: int = 10053
    """The preferred port; another one is used if it is taken."""
    max_pending: int = 1000
    """The number of forwarded queries of clients under way; further ones are refused."""
    max_pending_per_client: int = 250
    """The number of such queries of one client, so that it leaves room for others."""
    max_connections: int = 200
    """The number of TCP connections; a further one is closed at once."""
    max_connections_per_client: int = 50
    """The number of TCP connections of one client."""
    max_pipelined: int = 16
    """The number of queries of one connection that are under way; further ones are not read."""
    idle_s: float = 10.0
    """How long a TCP connection may be idle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDnsConfig:
    zone: ZoneConfig = field(default_factory=ZoneConfig)
    forwarder: ForwarderConfig = field(default_factory=ForwarderConfig)
    server: DnsServerConfig = field(default_factory=DnsServerConfig)
    client_cidrs: Sequence[str] = ()
    """CIDRs of clients beside the nodes of the cluster and their pod CIDRs."""
    is_announced: bool = False
    """Whether the servers are announced on their Node objects (`announcement`), because this process may not write
    EndpointSlices. Otherwise it publishes its own servers and those that other nodes announce."""
