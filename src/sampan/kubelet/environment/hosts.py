"""Pure computation of the /etc/hosts file of a pod's containers."""

from __future__ import annotations

from collections.abc import Sequence

from sampan.api.types.core_v1 import HostAlias
from sampan.kubelet.environment.hostnames import HostName

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
