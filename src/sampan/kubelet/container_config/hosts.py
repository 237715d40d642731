"""Pure computation of a pod's hostname and of the /etc/hosts file of its containers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sampan.api.types.core_v1 import HostAlias, Pod
from sampan.kubelet.container_config.variables import ContainerConfigError

_MAX_NAME = 63
_MAX_FQDN = 64


class HostName(NamedTuple):
    name: str
    domain: str = ""

    @property
    def full(self) -> str:
        return f"{self.name}.{self.domain}" if self.domain else self.name


def host_name(pod: Pod, cluster_domain: str) -> HostName:
    spec = pod.spec
    if spec.hostnameOverride is not None:
        return HostName(_shortened(spec.hostnameOverride))
    name = _shortened(spec.hostname or pod.metadata.name)
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


def _shortened(name: str) -> str:
    return name if len(name) <= _MAX_NAME else name[:_MAX_NAME].rstrip("-.")


_OWN = "# Kubernetes-managed hosts file.\n"
_NODE = "# Kubernetes-managed hosts file (host network).\n"
_FIXED = (
    "127.0.0.1\tlocalhost\n"
    "::1\tlocalhost ip6-localhost ip6-loopback\n"
    "fe00::0\tip6-localnet\n"
    "fe00::0\tip6-mcastprefix\n"
    "fe00::1\tip6-allnodes\n"
    "fe00::2\tip6-allrouters\n"
)


def hosts_file(addresses: Sequence[str], name: HostName, aliases: Sequence[HostAlias]) -> str:
    names = f"{name.full}\t{name.name}" if name.domain else name.name
    return _OWN + _FIXED + "".join(f"{address}\t{names}\n" for address in addresses) + _aliases(aliases)


def node_hosts_file(content: str, aliases: Sequence[HostAlias]) -> str:
    """Return the file of a pod with host networking, based on that of the node."""
    return _NODE + content + _aliases(aliases)


def _aliases(aliases: Sequence[HostAlias]) -> str:
    if not aliases:
        return ""
    lines = "".join("\t".join([alias.ip, *alias.hostnames]) + "\n" for alias in aliases)
    return f"\n# Entries added by HostAliases.\n{lines}"
