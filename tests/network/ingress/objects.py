"""Ingresses for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.networking_v1 import (
    HTTPIngressPath,
    HTTPIngressRuleValue,
    Ingress,
    IngressBackend,
    IngressRule,
    IngressServiceBackend,
    IngressSpec,
    IngressTLS,
    ServiceBackendPort,
)

PathSpec = tuple[str, str, str]
"""A path, its type, and the service that serves it."""


def backend(service: str, port: str | int = 80) -> IngressBackend:
    by = ServiceBackendPort(name=port) if isinstance(port, str) else ServiceBackendPort(number=port)
    return IngressBackend(service=IngressServiceBackend(name=service, port=by))


def ingress(
    name: str,
    hosts: Mapping[str, Sequence[PathSpec]],
    *,
    created: int = 0,
    default: str = "",
    secrets: Mapping[str, str] | None = None,
    class_name: str | None = "sampan",
) -> Ingress:
    """Return an Ingress; `hosts` has the paths of each host, `secrets` the secret of each host."""
    rules = [
        IngressRule(
            host=host,
            http=HTTPIngressRuleValue(
                paths=[HTTPIngressPath(path=path, pathType=kind, backend=backend(name)) for path, kind, name in paths]
            )
            if paths
            else None,
        )
        for host, paths in hosts.items()
    ]
    return Ingress(
        metadata=ObjectMeta(
            name=name, namespace="default", creationTimestamp=f"2026-01-01T00:00:{created:02}Z" if created else None
        ),
        spec=IngressSpec(
            ingressClassName=class_name,
            rules=rules,
            defaultBackend=backend(default) if default else None,
            tls=[IngressTLS(hosts=[host] if host else [], secretName=name) for host, name in (secrets or {}).items()],
        ),
    )
