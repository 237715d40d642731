"""The labels that a node may set on itself. Pure."""

from collections.abc import Mapping

_RESTRICTED = "node-restriction.kubernetes.io"
_KUBERNETES = ("kubernetes.io", "k8s.io")
_OWN_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
_OWN = frozenset(
    {
        *("kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch"),
        *("topology.kubernetes.io/zone", "topology.kubernetes.io/region"),
        *("failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"),
        *("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
        *("beta.kubernetes.io/os", "beta.kubernetes.io/arch"),
    }
)


def forbidden_changes(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    changed = {key for key, _ in old.items() ^ new.items()}
    return sorted(key for key in changed if _is_forbidden(key))


def _is_forbidden(key: str) -> bool:
    domain = key.partition("/")[0] if "/" in key else ""
    if _is_in(domain, _RESTRICTED):
        return True
    is_kubernetes = any(_is_in(domain, suffix) for suffix in _KUBERNETES)
    return is_kubernetes and key not in _OWN and not any(_is_in(domain, own) for own in _OWN_DOMAINS)


def _is_in(domain: str, parent: str) -> bool:
    return domain == parent or domain.endswith(f".{parent}")
