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
    """The maximum number of different questions in progress. Further questions are refused."""
    cache_size: int = 9984
    """The maximum number of responses in the cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DnsServerConfig:
    port: int = 10053
    """The preferred port. Another port is used if it is taken."""
    max_pending: int = 1000
    """The maximum number of forwarded queries in progress, for all clients. Further queries are refused."""
    max_pending_per_client: int = 250
    """The maximum number of forwarded queries in progress for one client, so that other clients are served too."""
    max_connections: int = 200
    """The maximum number of TCP connections. A further connection is closed at once."""
    max_connections_per_client: int = 50
    """The maximum number of TCP connections of one client."""
    max_pipelined: int = 16
    """The maximum number of queries in progress on one connection. Further queries are not read."""
    idle_s: float = 10.0
    """Seconds for which a TCP connection may be idle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDnsConfig:
    zone: ZoneConfig = field(default_factory=ZoneConfig)
    forwarder: ForwarderConfig = field(default_factory=ForwarderConfig)
    server: DnsServerConfig = field(default_factory=DnsServerConfig)
    client_cidrs: Sequence[str] = ()
    """The CIDRs of clients in addition to the nodes of the cluster and their pod CIDRs."""
    is_announced: bool = False
    """Whether the servers are announced on their Node objects (`announcement`), because this process may not write
    EndpointSlices. Otherwise it publishes its own servers and those that other nodes announce."""
