"""The strategies of services and of their status, and the table columns."""

from __future__ import annotations

from collections.abc import Iterable

from sampan.api import addresses, names
from sampan.api.field_errors import FieldError
from sampan.api.types.core_v1 import LoadBalancerIngress, Service, ServicePort, ServiceStatus
from sampan.apiserver.registry.kinds.services import allocations, service_types, validation
from sampan.apiserver.registry.kinds.services.service_types import default_service, is_load_balancer
from sampan.apiserver.registry.strategy import Column, Context, FinishFunc, StatusStrategy, Strategy
from sampan.apiserver.registry.validation import FieldErrors, validate_dns_subdomain
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.columns import AGE, NAME

_MODES = ("Proxy", "VIP")
_INGRESS_PATH = "status.loadBalancer.ingress"


def validate_load_balancer_status(service: Service, old: Service) -> FieldErrors:
    ingresses = service.status.loadBalancer.ingress
    if ingresses and not is_load_balancer(service):
        yield FieldError.forbidden(_INGRESS_PATH, "may only be used when `spec.type` is 'LoadBalancer'")
        return
    before = {ingress.ip for ingress in old.status.loadBalancer.ingress}
    for index, ingress in enumerate(ingresses):
        path = f"{_INGRESS_PATH}[{index}]"
        if ingress.ip and ingress.ip not in before:
            yield from addresses.legacy_ip(ingress.ip, f"{path}.ip")
        yield from _validate_ingress(ingress, path)


def _validate_ingress(ingress: LoadBalancerIngress, path: str) -> FieldErrors:
    if ingress.ipMode is None:
        if ingress.ip:
            yield FieldError.required(f"{path}.ipMode", "must be specified when `ip` is set")
    elif not ingress.ip:
        yield FieldError.forbidden(f"{path}.ipMode", "may not be specified when `ip` is not set")
    elif ingress.ipMode not in _MODES:
        yield FieldError.not_supported(f"{path}.ipMode", ingress.ipMode, _MODES)
    if ingress.hostname:
        yield from validate_dns_subdomain(ingress.hostname, f"{path}.hostname")
        if addresses.parse(ingress.hostname) is not None:
            text = "must be a DNS name, not an IP address"
            yield FieldError.invalid(f"{path}.hostname", ingress.hostname, text)


_PENDING = "<pending>"
_UNKNOWN = "<unknown>"


def _type(service: Service, now: float) -> str:
    return service.spec.type


def _cluster_ip(service: Service, now: float) -> str:
    return service.spec.clusterIPs[0] if service.spec.clusterIPs else cells.NONE


def _external_ip(service: Service, now: float) -> str:
    spec = service.spec
    if spec.type == service_types.EXTERNAL_NAME:
        return spec.externalName
    if spec.type == service_types.LOAD_BALANCER:
        return ",".join([*_load_balancer(service), *spec.externalIPs]) or _PENDING
    if spec.type in (service_types.CLUSTER_IP, service_types.NODE_PORT):
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


class ServiceStrategy(Strategy):
    allow_create_on_update = True
    return_deleted_object = True
    columns = COLUMNS

    def validate_name(self, name: str, is_prefix: bool) -> list[str]:
        return names.dns1123_label(name, prefix=is_prefix)

    def default(self, obj: Service) -> None:
        default_service(obj)

    async def begin_write(self, ctx: Context, obj: Service, old: Service | None) -> FinishFunc | None:
        return await allocations.allocate(ctx, obj, old)

    def prepare_for_create(self, ctx: Context, obj: Service) -> None:
        obj.status = ServiceStatus()
        _drop_hidden(obj)

    def validate_create(self, ctx: Context, obj: Service) -> Iterable[FieldError]:
        return validation.validate_service(obj, None)

    def prepare_for_update(self, ctx: Context, obj: Service, old: Service) -> None:
        obj.status = old.status
        service_types.drop_unneeded(obj, old)
        _drop_hidden(obj)

    def validate_update(self, ctx: Context, obj: Service, old: Service) -> Iterable[FieldError]:
        yield from validation.validate_service_update(obj, old)
        yield from validation.validate_service(obj, old)

    def warnings(self, ctx: Context, obj: Service, old: Service | None) -> Iterable[str]:
        return validation.service_warnings(obj)

    async def after_delete(self, ctx: Context, obj: Service) -> None:
        await allocations.release_service(ctx, obj)


def _drop_hidden(service: Service) -> None:
    """Clear internalTrafficPolicy, which does not apply to ExternalName services."""
    if service_types.is_external_name(service):
        service.spec.internalTrafficPolicy = None


class ServiceStatusStrategy(StatusStrategy):
    def validate_update(self, ctx: Context, obj: Service, old: Service) -> Iterable[FieldError]:
        return validate_load_balancer_status(obj, old)

    def warnings(self, ctx: Context, obj: Service, old: Service | None) -> Iterable[str]:
        return validation.status_warnings(obj)
