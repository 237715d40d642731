"""Pure computation of a pod's hostname."""

from __future__ import annotations

from typing import NamedTuple

from sampan.api.types.core_v1 import Pod
from sampan.kubelet.environment.variables import ConfigFault

_LONGEST = 63
_LONGEST_FULL = 64


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


def kernel_name(pod: Pod, found: HostName) -> str:
    """Return the name for `uname -n`. Raise ConfigFault if it is too long for the kernel."""
    if not pod.spec.setHostnameAsFQDN:
        return found.name
    if len(found.full) > _LONGEST_FULL:
        raise ConfigFault(
            f'failed to construct FQDN from pod hostname and cluster domain, FQDN "{found.full}" is too long '
            f"({_LONGEST_FULL} characters is the max, {len(found.full)} characters requested)"
        )
    return found.full


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST else name[:_LONGEST].rstrip("-.")
