"""The upstream resolvers to which queries outside of the cluster domain are forwarded.

They come from flags or from a resolv.conf; there is no default resolver. The file is that of the machine, not that of a
pod: a stub resolver on a loopback address, such as 127.0.0.53 of systemd-resolved or 127.0.0.11 of Docker, works as
upstream, since queries are forwarded from the network namespace of the process.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sampan.network.dns.wire import is_within, name_bytes

DNS_PORT = 53
RESOLV_CONF = Path("/etc/resolv.conf")
SYSTEMD_RESOLV_CONF = Path("/run/systemd/resolve/resolv.conf")
"""The file in which systemd-resolved lists its own upstream resolvers; /etc/resolv.conf has its stub."""
_SYSTEMD_STUB = "127.0.0.53"
_MAX_UPSTREAMS = 15


@dataclass(frozen=True, slots=True)
class UpstreamAddress:
    """The address and port of a resolver."""

    host: str
    port: int = DNS_PORT

    @classmethod
    def parse(cls, text: str) -> UpstreamAddress:
        """Parse `10.0.0.2`, `10.0.0.2:5353`, `fd00::2` or `[fd00::2]:5353`. Raise ValueError for anything else."""
        host, port = text, DNS_PORT
        if text.startswith("[") and "]" in text:
            host, _, remainder = text[1:].partition("]")
            port = _port(remainder.removeprefix(":")) if remainder else DNS_PORT
        elif text.count(":") == 1:
            host, _, remainder = text.partition(":")
            port = _port(remainder)
        ipaddress.ip_address(host)
        return cls(host, port)

    def __str__(self) -> str:
        if self.port == DNS_PORT:
            return self.host
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamConfig:
    """Where upstream resolvers are configured."""

    servers: Sequence[UpstreamAddress] = ()
    """Resolvers that are set explicitly; if there are none, those of `resolv_conf` are used."""
    resolv_conf: Path | None = None
    """The path of the resolv.conf. None stands for the resolv.conf of this machine."""
    stub_domains: Mapping[str, Sequence[UpstreamAddress]] = field(default_factory=dict)
    """Resolvers for the names of a domain, by domain."""


@dataclass(frozen=True, slots=True)
class UpstreamChoice:
    """The chosen resolvers, and where they come from."""

    servers: tuple[UpstreamAddress, ...]
    source: str
    stub_domains: tuple[tuple[bytes, tuple[UpstreamAddress, ...]], ...] = ()
    """Domains in wire format, longest first, with their resolvers."""

    def servers_for(self, name: bytes) -> tuple[UpstreamAddress, ...]:
        for domain, servers in self.stub_domains:
            if is_within(name, domain):
                return servers
        return self.servers

    def __str__(self) -> str:
        if not self.servers:
            return f"nowhere ({self.source})"
        return f"{', '.join(map(str, self.servers))} ({self.source})"


def choose_upstreams(config: UpstreamConfig) -> UpstreamChoice:
    """Read the configured files and choose the upstream resolvers."""
    stubs = sorted(
        ((name_bytes(domain), tuple(servers)) for domain, servers in config.stub_domains.items()),
        key=lambda stub: -len(stub[0]),
    )
    if config.servers:
        return UpstreamChoice(tuple(config.servers), "set explicitly", tuple(stubs))
    path = config.resolv_conf or RESOLV_CONF
    servers = nameservers_of(path)
    if config.resolv_conf is None and servers and all(server.host == _SYSTEMD_STUB for server in servers):
        real = nameservers_of(SYSTEMD_RESOLV_CONF)
        if real:
            path, servers = SYSTEMD_RESOLV_CONF, real
    source = str(path) if servers else f"no nameserver in {path}"
    return UpstreamChoice(servers, source, tuple(stubs))


def node_resolv_conf(text: str, choice: UpstreamChoice, cluster_dns: Sequence[str]) -> str:
    """Return the resolv.conf for pods that use the resolvers of their node (`dnsPolicy: Default`).

    It is the resolv.conf of the machine with the chosen resolvers. Pods cannot reach resolvers on loopback addresses or
    other ports. If there are no others, the DNS server of the cluster, which forwards to them, takes their place.
    """
    hosts = [server.host for server in choice.servers if server.port == DNS_PORT and not _is_loopback(server.host)]
    other_lines = [line for line in text.splitlines() if line.split()[:1] != ["nameserver"]]
    return "\n".join([*other_lines, *(f"nameserver {host}" for host in hosts or cluster_dns)]) + "\n"


def _is_loopback(host: str) -> bool:
    return ipaddress.ip_address(host.partition("%")[0]).is_loopback


def nameservers_of(path: Path) -> tuple[UpstreamAddress, ...]:
    """Return the nameservers in a resolv.conf; none if it cannot be read."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return ()
    servers: dict[UpstreamAddress, None] = {}
    for line in text.splitlines():
        words = line.split("#")[0].split(";")[0].split()
        if len(words) > 1 and words[0] == "nameserver":
            try:
                ipaddress.ip_address(words[1])
            except ValueError:
                continue
            servers[UpstreamAddress(words[1])] = None
    return tuple(servers)[:_MAX_UPSTREAMS]


def _port(text: str) -> int:
    port = int(text)
    if not 0 < port < 65536:
        raise ValueError(f"{text} is no port")
    return port
