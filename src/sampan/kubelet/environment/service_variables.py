"""Pure computation of the environment variables of services (`pkg/kubelet/envvars`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sampan.api.types.core_v1 import Service, ServicePort

_MASTER = ("default", "kubernetes")
"""The service of the API server, whose variables every container gets."""


def service_variables(services: Iterable[Service], namespace: str, *, has_links: bool) -> dict[str, str]:
    """Return the variables of the API server's service, and with `has_links` of all services of the namespace."""
    chosen: dict[str, Service] = {}
    for service in services:
        meta = service.metadata
        if service.spec.clusterIP in ("", "None") or not service.spec.ports:
            continue
        if (meta.namespace, meta.name) == _MASTER:
            chosen.setdefault(meta.name, service)
        elif meta.namespace == namespace and has_links:
            chosen[meta.name] = service
    return dict(pair for service in chosen.values() for pair in _variables(service))


def _variables(service: Service) -> Iterator[tuple[str, str]]:
    name, address = _upper(service.metadata.name), service.spec.clusterIP
    ports = service.spec.ports
    yield f"{name}_SERVICE_HOST", address
    yield f"{name}_SERVICE_PORT", str(ports[0].port)
    for port in ports:
        if port.name:
            yield f"{name}_SERVICE_PORT_{_upper(port.name)}", str(port.port)
    yield f"{name}_PORT", _url(address, ports[0])
    for port in ports:
        prefix = f"{name}_PORT_{port.port}_{(port.protocol or 'TCP').upper()}"
        yield prefix, _url(address, port)
        yield f"{prefix}_PROTO", (port.protocol or "TCP").lower()
        yield f"{prefix}_PORT", str(port.port)
        yield f"{prefix}_ADDR", address


def _url(address: str, port: ServicePort) -> str:
    host = f"[{address}]" if ":" in address else address
    return f"{(port.protocol or 'TCP').lower()}://{host}:{port.port}"


def _upper(name: str) -> str:
    return name.replace("-", "_").upper()
