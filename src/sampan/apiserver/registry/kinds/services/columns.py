"""The table columns of services."""

from sampan.api.types.core_v1 import Service, ServicePort
from sampan.apiserver.registry.kinds.services import traits
from sampan.apiserver.registry.strategy import Column
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.columns import AGE, NAME

_PENDING = "<pending>"
_UNKNOWN = "<unknown>"


def _type(service: Service, now: float) -> str:
    return service.spec.type


def _cluster_ip(service: Service, now: float) -> str:
    return service.spec.clusterIPs[0] if service.spec.clusterIPs else cells.NONE


def _external_ip(service: Service, now: float) -> str:
    spec = service.spec
    if spec.type == traits.EXTERNAL_NAME:
        return spec.externalName
    if spec.type == traits.LOAD_BALANCER:
        return ",".join([*_load_balancer(service), *spec.externalIPs]) or _PENDING
    if spec.type in (traits.CLUSTER_IP, traits.NODE_PORT):
        return ",".join(spec.externalIPs) or cells.NONE
    return _UNKNOWN


def _load_balancer(service: Service) -> list[str]:
    addresses = {ingress.ip or ingress.hostname for ingress in service.status.loadBalancer.ingress}
    return sorted(addresses - {""})


def _ports(service: Service, now: float) -> str:
    return ",".join([_port(port) for port in service.spec.ports]) or cells.NONE


def _port(port: ServicePort) -> str:
    number = f"{port.port}:{port.nodePort}" if port.nodePort > 0 else str(port.port)
    return f"{number}/{port.protocol}"


def _selector(service: Service, now: float) -> str:
    return cells.pairs(service.spec.selector)


COLUMNS = (
    NAME,
    Column("Type", _type, field="spec.type"),
    Column("Cluster-IP", _cluster_ip, field="spec.clusterIP"),
    Column("External-IP", _external_ip, field="spec.externalIPs"),
    Column("Port(s)", _ports, field="spec.ports"),
    AGE,
    Column("Selector", _selector, field="spec.selector", wide=True),
)
