"""Ingress: routes external HTTP requests to services by host and path."""

from collections.abc import Iterable, Sequence

from sampan.api import addresses, names
from sampan.api.field_errors import FieldError
from sampan.api.types.networking_v1 import (
    HTTPIngressPath,
    Ingress,
    IngressBackend,
    IngressRule,
    IngressServiceBackend,
    IngressSpec,
    IngressStatus,
    IngressTLS,
)
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.strategy import Column, Context, StatusStrategy, Strategy
from sampan.apiserver.registry.validation import (
    FieldErrors,
    ip_warnings,
    validate_dns_label,
    validate_dns_subdomain,
    validate_required,
    validate_typed_reference,
)
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.columns import AGE, NAME

_OLD_CLASS = "kubernetes.io/ingress.class"
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_BAD_PARTS, _BAD_ENDS = ("//", "/./", "/../", "%2f", "%2F"), ("/..", "/.")
_NOT_AN_ADDRESS = "must be a DNS name, not an IP address"
_ENTRIES = "status.loadBalancer.ingress"
_SHOWN = 3


def _hosts(ingress: Ingress, now: float) -> str:
    rules = ingress.spec.rules
    hosts = [rule.host for rule in rules if rule.host][:_SHOWN]
    last = [index for index, rule in enumerate(rules) if rule.host][:_SHOWN][-1:]
    has_more = len(hosts) == _SHOWN and last[0] < len(rules) - 1
    return f"{','.join(hosts)} + {len(rules) - _SHOWN} more..." if has_more else ",".join(hosts) or "*"


def _address(ingress: Ingress, now: float) -> str:
    hosts = {entry.ip or entry.hostname for entry in ingress.status.loadBalancer.ingress}
    return ",".join(sorted(hosts - {""}))


def _class(ingress: Ingress, now: float) -> str:
    name = ingress.spec.ingressClassName
    return name if name is not None else cells.NONE


_COLUMNS = (
    NAME,
    Column(
        "Class",
        _class,
        description="The name of the IngressClass resource that should be used for additional configuration",
    ),
    Column("Hosts", _hosts, description="Hosts that incoming requests are matched against before the ingress rule"),
    Column("Address", _address, description="Address is a list containing ingress points for the load-balancer"),
    Column(
        "Ports",
        lambda ingress, now: "80, 443" if ingress.spec.tls else "80",
        description="Ports of TLS configurations that open",
    ),
    AGE,
)


class IngressStrategy(Strategy):
    columns = _COLUMNS
    counts_generation = True

    def prepare_for_create(self, ctx: Context, obj: Ingress) -> None:
        obj.status = IngressStatus()

    def validate_create(self, ctx: Context, obj: Ingress) -> Iterable[FieldError]:
        yield from _validate_spec(obj.spec, "spec")
        old_class, class_name = obj.metadata.annotations.get(_OLD_CLASS), obj.spec.ingressClassName
        if old_class is not None and class_name is not None and old_class != class_name:
            text = "must match `ingressClassName` when both are specified"
            yield FieldError.invalid(f"annotations.{_OLD_CLASS}", old_class, text)

    def prepare_for_update(self, ctx: Context, obj: Ingress, old: Ingress) -> None:
        obj.status = old.status

    def validate_update(self, ctx: Context, obj: Ingress, old: Ingress) -> Iterable[FieldError]:
        """Yield the errors of an update; some kinds of invalid values are tolerated if the old object has them."""
        had_bad_secrets = any(tls.secretName and names.dns1123_subdomain(tls.secretName) for tls in old.spec.tls)
        had_bad_wildcards = any("*" in rule.host and any(_validate_paths(rule, "")) for rule in old.spec.rules)
        return _validate_spec(
            obj.spec, "spec", allow_bad_secrets=had_bad_secrets, allow_bad_wildcards=had_bad_wildcards
        )

    def warnings(self, ctx: Context, obj: Ingress, old: Ingress | None) -> Iterable[str]:
        if old is None and _OLD_CLASS in obj.metadata.annotations and obj.spec.ingressClassName is None:
            yield f"annotation \"{_OLD_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"


class IngressStatusStrategy(StatusStrategy):
    def validate_update(self, ctx: Context, obj: Ingress, old: Ingress) -> Iterable[FieldError]:
        before = {entry.ip for entry in old.status.loadBalancer.ingress}
        for index, entry in enumerate(obj.status.loadBalancer.ingress):
            path = f"{_ENTRIES}[{index}]"
            if entry.ip and entry.ip not in before:
                yield from addresses.legacy_ip(entry.ip, f"{path}.ip")
            if entry.hostname:
                yield from validate_dns_subdomain(entry.hostname, f"{path}.hostname")
                if addresses.parse(entry.hostname) is not None:
                    yield FieldError.invalid(f"{path}.hostname", entry.hostname, _NOT_AN_ADDRESS)

    def warnings(self, ctx: Context, obj: Ingress, old: Ingress | None) -> Iterable[str]:
        for index, entry in enumerate(obj.status.loadBalancer.ingress):
            if entry.ip:
                yield from ip_warnings(entry.ip, f"{_ENTRIES}[{index}]")


def _validate_spec(
    spec: IngressSpec, field_path: str, *, allow_bad_secrets: bool = False, allow_bad_wildcards: bool = False
) -> FieldErrors:
    if not spec.rules and spec.defaultBackend is None:
        yield FieldError.invalid(field_path, None, "either `defaultBackend` or `rules` must be specified")
    if spec.defaultBackend is not None:
        yield from _validate_backend(spec.defaultBackend, f"{field_path}.defaultBackend")
    for index, rule in enumerate(spec.rules):
        path = f"{field_path}.rules[{index}]"
        if rule.host:
            yield from _validate_host(rule.host, f"{path}.host")
        if "*" not in rule.host or not allow_bad_wildcards:
            yield from _validate_paths(rule, path)
    yield from _validate_tls(spec.tls, f"{field_path}.tls", allow_bad_secrets)
    if spec.ingressClassName is not None:
        yield from validate_dns_subdomain(spec.ingressClassName, f"{field_path}.ingressClassName")


def _validate_tls(tls_entries: Sequence[IngressTLS], path: str, allow_bad_secrets: bool) -> FieldErrors:
    for index, tls in enumerate(tls_entries):
        for host_index, host in enumerate(tls.hosts):
            yield from _validate_domain(host, f"{path}[{index}].hosts[{host_index}]")
        if tls.secretName and not allow_bad_secrets:
            yield from validate_dns_subdomain(tls.secretName, f"{path}[{index}].secretName")


def _validate_host(host: str, path: str) -> FieldErrors:
    if addresses.parse(host) is not None:
        yield FieldError.invalid(path, host, _NOT_AN_ADDRESS)
    yield from _validate_domain(host, path)


def _validate_domain(host: str, path: str) -> FieldErrors:
    check = names.wildcard_dns1123_subdomain if "*" in host else names.dns1123_subdomain
    for text in check(host):
        yield FieldError.invalid(path, host, text)


def _validate_paths(rule: IngressRule, field_path: str) -> FieldErrors:
    if rule.http is None:
        return
    if not rule.http.paths:
        yield FieldError.required(f"{field_path}.http.paths")
    for index, path in enumerate(rule.http.paths or ()):
        yield from _validate_path(path, f"{field_path}.http.paths[{index}]")


def _validate_path(path: HTTPIngressPath, field_path: str) -> FieldErrors:
    kind, text = path.pathType, path.path
    if kind is None:
        yield FieldError.required(f"{field_path}.pathType", "pathType must be specified")
        return
    if kind not in _PATH_TYPES:
        yield FieldError.not_supported(f"{field_path}.pathType", kind, _PATH_TYPES)
    else:
        if not text.startswith("/") and (text or kind != "ImplementationSpecific"):
            yield FieldError.invalid(f"{field_path}.path", text, "must be an absolute path")
        for part in _BAD_PARTS if kind != "ImplementationSpecific" else ():
            if part in text:
                yield FieldError.invalid(f"{field_path}.path", text, f"must not contain '{part}'")
        for end in _BAD_ENDS if kind != "ImplementationSpecific" else ():
            if text.endswith(end):
                yield FieldError.invalid(f"{field_path}.path", text, f"cannot end with '{end}'")
    yield from _validate_backend(path.backend, f"{field_path}.backend")


def _validate_backend(backend: IngressBackend, path: str) -> FieldErrors:
    if backend.resource is not None and backend.service is not None:
        yield FieldError.invalid(path, "", "cannot set both resource and service backends")
    elif backend.resource is not None:
        yield from validate_typed_reference(backend.resource, f"{path}.resource")
        yield from validate_required(backend.resource.kind, f"{path}.resource.kind")
        yield from validate_required(backend.resource.name, f"{path}.resource.name")
    elif backend.service is not None:
        yield from _validate_service(backend.service, path)
    else:
        yield FieldError.invalid(path, "", "resource or service backend is required")


def _validate_service(service: IngressServiceBackend, path: str) -> FieldErrors:
    yield from (
        validate_dns_label(service.name, f"{path}.service.name")
        if service.name
        else validate_required("", f"{path}.service.name")
    )
    port = service.port
    if port.name and port.number:
        yield FieldError.invalid(path, "", "cannot set both port name & port number")
    elif port.name:
        for text in names.port_name(port.name):
            yield FieldError.invalid(f"{path}.service.port.name", port.name, text)
    elif port.number:
        for text in names.port_number(port.number):
            yield FieldError.invalid(f"{path}.service.port.number", port.number, text)
    else:
        yield FieldError.required(path, "port name or number is required")


_strategy = IngressStrategy()
BEHAVIOR = ResourceBehavior(strategy=_strategy, views={"status": IngressStatusStrategy(_strategy)})
