"""Pure computation of a pod's hostname, its resolv.conf according to its dnsPolicy (`pkg/kubelet/network/dns`), and the
/etc/hosts file of its containers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sampan.api.types.core_v1 import HostAlias, Pod, PodDNSConfigOption
from sampan.kubelet.container_config.variables import ContainerConfigError
from sampan.runtimes.config import ResolverConfig

_MAX_SERVERS, _MAX_SEARCHES, _MAX_SEARCH_CHARACTERS = 3, 32, 2048
_CLUSTER_OPTIONS = ("ndots:5",)
_MAX_NAME = 63
_MAX_FQDN = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class DnsConfig:
    """The DNS configuration of the kubelet, from which those of its pods are computed."""

    node: ResolverConfig = field(default_factory=ResolverConfig)
    """The content of the node's resolv.conf."""
    local_servers: Sequence[str] = ()
    """Loopback addresses of resolvers on the node, which pods with the node's DNS get if the node has no resolv.conf
    (`--resolv-conf ""`)."""
    cluster_servers: Sequence[str] = ()
    cluster_domain: str = "cluster.local"


def pod_dns(pod: Pod, config: DnsConfig) -> tuple[ResolverConfig, list[str]]:
    """Return the DNS configuration of the pod, and warnings to be recorded as events."""
    policy, warnings = pod.spec.dnsPolicy or "ClusterFirst", list[str]()
    if policy == "ClusterFirst" and pod.spec.hostNetwork:
        policy = "Default"
    is_cluster = policy in ("ClusterFirst", "ClusterFirstWithHostNet")
    if is_cluster and not config.cluster_servers:
        warnings.append(
            'kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. '
            'Falling back to "Default" policy.'
        )
        is_cluster = False
    if policy == "None":
        dns = ResolverConfig()
    elif is_cluster:
        dns = ResolverConfig(
            servers=config.cluster_servers,
            searches=_cluster_searches(pod.metadata.namespace, config),
            options=_CLUSTER_OPTIONS,
        )
    else:
        dns = ResolverConfig(servers=config.local_servers, searches=["."]) if config.local_servers else config.node
    return _apply_limits(_merge_pod_dns_config(pod, dns), warnings), warnings


def _cluster_searches(namespace: str, config: DnsConfig) -> list[str]:
    domain = config.cluster_domain
    own = [f"{namespace}.svc.{domain}", f"svc.{domain}", domain] if domain else []
    return _remove_duplicates([*own, *config.node.searches])


def _merge_pod_dns_config(pod: Pod, dns: ResolverConfig) -> ResolverConfig:
    dns_config = pod.spec.dnsConfig
    if dns_config is None:
        return dns
    return ResolverConfig(
        servers=_remove_duplicates([*dns.servers, *dns_config.nameservers]),
        searches=_remove_duplicates([*dns.searches, *dns_config.searches]),
        options=_merge_options(dns.options, dns_config.options),
    )


def _merge_options(options: Sequence[str], more: Sequence[PodDNSConfigOption]) -> list[str]:
    """Merge resolver options; the options of the pod take precedence over the options of the node."""
    options_by_name = {option.partition(":")[0]: option for option in options}
    for option in more:
        options_by_name[option.name] = option.name if option.value is None else f"{option.name}:{option.value}"
    return list(options_by_name.values())


def _apply_limits(dns: ResolverConfig, warnings: list[str]) -> ResolverConfig:
    if len(dns.servers) > _MAX_SERVERS:
        dns = replace(dns, servers=dns.servers[:_MAX_SERVERS])
        line = " ".join(dns.servers)
        warnings.append(
            "Nameserver limits were exceeded, some nameservers have been omitted, "
            f"the applied nameserver line is: {line}"
        )
    searches = list(dns.searches[:_MAX_SEARCHES])
    while len(" ".join(searches)) > _MAX_SEARCH_CHARACTERS:
        searches.pop()
    if len(searches) < len(dns.searches):
        dns = replace(dns, searches=searches)
        warnings.append(
            "Search Line limits were exceeded, some search paths have been omitted, "
            f"the applied search line is: {' '.join(searches)}"
        )
    return dns


def read_resolv_conf(text: str) -> ResolverConfig:
    """Parse resolv.conf. Of several search or options lines the last applies, as in the C library."""
    servers: list[str] = []
    searches: list[str] = []
    options: list[str] = []
    for line in text.splitlines():
        words = line.split("#")[0].split(";")[0].split()
        if len(words) < 1:
            continue
        if words[0] == "nameserver" and len(words) > 1:
            servers.append(words[1])
        elif words[0] == "search":
            searches = [word.removesuffix(".") if word != "." else word for word in words[1:]]
        elif words[0] == "options":
            options = words[1:]
    return ResolverConfig(servers=servers, searches=searches, options=options)


def _remove_duplicates(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))


class HostName(NamedTuple):
    name: str
    domain: str = ""

    @property
    def full(self) -> str:
        return f"{self.name}.{self.domain}" if self.domain else self.name


def host_name(pod: Pod, cluster_domain: str) -> HostName:
    spec = pod.spec
    if spec.hostnameOverride is not None:
        return HostName(_truncate_name(spec.hostnameOverride))
    name = _truncate_name(spec.hostname or pod.metadata.name)
    domain = f"{spec.subdomain}.{pod.metadata.namespace}.svc.{cluster_domain}" if spec.subdomain else ""
    return HostName(name, domain)


def kernel_name(pod: Pod, hostname: HostName) -> str:
    """Return the name for `uname -n`. Raise ContainerConfigError if it is too long for the kernel."""
    if not pod.spec.setHostnameAsFQDN:
        return hostname.name
    if len(hostname.full) > _MAX_FQDN:
        raise ContainerConfigError(
            f'failed to construct FQDN from pod hostname and cluster domain, FQDN "{hostname.full}" is too long '
            f"({_MAX_FQDN} characters is the max, {len(hostname.full)} characters requested)"
        )
    return hostname.full


def _truncate_name(name: str) -> str:
    return name if len(name) <= _MAX_NAME else name[:_MAX_NAME].rstrip("-.")


_POD_HEADER = "# Kubernetes-managed hosts file.\n"
_HOST_NETWORK_HEADER = "# Kubernetes-managed hosts file (host network).\n"
_LOCAL_ENTRIES = (
    "127.0.0.1\tlocalhost\n"
    "::1\tlocalhost ip6-localhost ip6-loopback\n"
    "fe00::0\tip6-localnet\n"
    "fe00::0\tip6-mcastprefix\n"
    "fe00::1\tip6-allnodes\n"
    "fe00::2\tip6-allrouters\n"
)


def hosts_file(addresses: Sequence[str], name: HostName, aliases: Sequence[HostAlias]) -> str:
    names = f"{name.full}\t{name.name}" if name.domain else name.name
    return (
        _POD_HEADER
        + _LOCAL_ENTRIES
        + "".join(f"{address}\t{names}\n" for address in addresses)
        + _format_aliases(aliases)
    )


def node_hosts_file(content: str, aliases: Sequence[HostAlias]) -> str:
    """Return the /etc/hosts file of a pod with host networking, which is based on the node's file."""
    return _HOST_NETWORK_HEADER + content + _format_aliases(aliases)


def _format_aliases(aliases: Sequence[HostAlias]) -> str:
    if not aliases:
        return ""
    lines = "".join("\t".join([alias.ip, *alias.hostnames]) + "\n" for alias in aliases)
    return f"\n# Entries added by HostAliases.\n{lines}"
