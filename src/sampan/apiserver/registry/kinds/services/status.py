"""Validation of the load balancer status."""

from sampan.api import addresses
from sampan.api.faults import FieldError
from sampan.api.types.core_v1 import LoadBalancerIngress, Service
from sampan.apiserver.registry.kinds.services.traits import is_load_balancer
from sampan.apiserver.registry.podspec.formats import FieldErrors, validate_dns_subdomain

_MODES = ("Proxy", "VIP")
_AT = "status.loadBalancer.ingress"


def validate_load_balancer_status(service: Service, old: Service) -> FieldErrors:
    ingresses = service.status.loadBalancer.ingress
    if ingresses and not is_load_balancer(service):
        yield FieldError.forbidden(_AT, "may only be used when `spec.type` is 'LoadBalancer'")
        return
    before = {ingress.ip for ingress in old.status.loadBalancer.ingress}
    for index, ingress in enumerate(ingresses):
        at = f"{_AT}[{index}]"
        if ingress.ip and ingress.ip not in before:
            yield from addresses.legacy_ip(ingress.ip, f"{at}.ip")
        yield from _validate_ingress(ingress, at)


def _validate_ingress(ingress: LoadBalancerIngress, at: str) -> FieldErrors:
    if ingress.ipMode is None:
        if ingress.ip:
            yield FieldError.required(f"{at}.ipMode", "must be specified when `ip` is set")
    elif not ingress.ip:
        yield FieldError.forbidden(f"{at}.ipMode", "may not be specified when `ip` is not set")
    elif ingress.ipMode not in _MODES:
        yield FieldError.not_supported(f"{at}.ipMode", ingress.ipMode, _MODES)
    if ingress.hostname:
        yield from validate_dns_subdomain(ingress.hostname, f"{at}.hostname")
        if addresses.parse(ingress.hostname) is not None:
            text = "must be a DNS name, not an IP address"
            yield FieldError.invalid(f"{at}.hostname", ingress.hostname, text)
