"""APIService: whether a group version is served by this server or by a service in the cluster."""

from collections.abc import Iterable

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.go_compat.gotext import quote
from sampan.api.semantics.conditions import find_condition
from sampan.api.types.apiregistration_v1 import (
    APIService,
    APIServiceCondition,
    APIServiceSpec,
    APIServiceStatus,
    ServiceReference,
)
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.strategy import Column, Context, StatusStrategy, Strategy
from sampan.apiserver.registry.validation import (
    FieldErrors,
    validate_dns_subdomain,
    validate_optional_one_of,
    validate_required,
)
from sampan.apiserver.tables.columns import AGE, NAME

AVAILABLE = "Available"
_PORT = 443
_MAX_GROUP_PRIORITY, _MAX_VERSION_PRIORITY = 20000, 1000
_STATUSES = ("True", "False", "Unknown")


def _service(api_service: APIService, now: float) -> str:
    service = api_service.spec.service
    return f"{service.namespace}/{service.name}" if service is not None else "Local"


def _available(api_service: APIService, now: float) -> str:
    condition = find_condition(api_service.status.conditions, AVAILABLE)
    if condition is None:
        return "Unknown"
    is_explained = condition.status != "True" and condition.reason
    return f"{condition.status} ({condition.reason})" if is_explained else condition.status


_COLUMNS = (
    NAME,
    Column("Service", _service, description="The reference to the service that hosts this API endpoint."),
    Column("Available", _available, description="Whether this service is available."),
    AGE,
)


class APIServiceStrategy(Strategy):
    columns = _COLUMNS
    allow_unconditional_update = False

    def validate_name(self, name: str, is_prefix: bool) -> list[str]:
        return names.path_segment(name, prefix=is_prefix)

    def default(self, obj: APIService) -> None:
        if obj.spec.service is not None and obj.spec.service.port is None:
            obj.spec.service.port = _PORT

    def prepare_for_create(self, ctx: Context, obj: APIService) -> None:
        """Reset the status; an APIService of this server itself is available from the start."""
        obj.status = APIServiceStatus()
        if obj.spec.service is None:
            message = "Local APIServices are always available"
            condition = APIServiceCondition(
                type=AVAILABLE, status="True", lastTransitionTime=ctx.now, reason="Local", message=message
            )
            obj.status.conditions = [condition]

    def validate_create(self, ctx: Context, obj: APIService) -> Iterable[FieldError]:
        expected, name = f"{obj.spec.version}.{obj.spec.group}", obj.metadata.name
        if name and not names.path_segment(name) and name != expected:
            text = f'must be `spec.version+"."+spec.group`: {quote(expected)}'
            yield FieldError.invalid("metadata.name", name, text)
        yield from _validate_spec(obj.spec)

    def prepare_for_update(self, ctx: Context, obj: APIService, old: APIService) -> None:
        obj.status = old.status

    def validate_update(self, ctx: Context, obj: APIService, old: APIService) -> Iterable[FieldError]:
        return self.validate_create(ctx, obj)


class APIServiceStatusStrategy(StatusStrategy):
    keeps_metadata = True

    def validate_update(self, ctx: Context, obj: APIService, old: APIService) -> Iterable[FieldError]:
        for index, condition in enumerate(obj.status.conditions):
            yield from validate_optional_one_of(condition.status, _STATUSES, f"status.conditions[{index}].status")


def _validate_spec(spec: APIServiceSpec) -> FieldErrors:
    if spec.group:
        yield from validate_dns_subdomain(spec.group, "spec.group")
    elif spec.version != "v1":
        yield FieldError.required("spec.group", "only v1 may have an empty group and it better be legacy kube")
    for text in names.dns1035_label(spec.version):
        yield FieldError.invalid("spec.version", spec.version, text)
    for field, maximum in (("groupPriorityMinimum", _MAX_GROUP_PRIORITY), ("versionPriority", _MAX_VERSION_PRIORITY)):
        priority = getattr(spec, field)
        if not 0 < priority <= maximum:
            yield FieldError.invalid(f"spec.{field}", priority, f"must be positive and less than {maximum}")
    if spec.service is not None:
        yield from _validate_service(spec.service, "spec.service")
        if spec.insecureSkipTLSVerify and spec.caBundle:
            yield FieldError.invalid("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is present")
        return
    if spec.caBundle:
        text = "local APIServices may not have a caBundle"
        yield FieldError.invalid("spec.caBundle", f"{len(spec.caBundle)} bytes", text)
    if spec.insecureSkipTLSVerify:
        text = "local APIServices may not have insecureSkipTLSVerify"
        yield FieldError.invalid("spec.insecureSkipTLSVerify", True, text)


def _validate_service(service: ServiceReference, path: str) -> FieldErrors:
    yield from validate_required(service.namespace, f"{path}.namespace")
    yield from validate_required(service.name, f"{path}.name")
    port = service.port if service.port is not None else _PORT
    if messages := names.port_number(port):
        yield FieldError.invalid(f"{path}.port", port, f"port is not valid: {', '.join(messages)}")


_strategy = APIServiceStrategy()
BEHAVIOR = ResourceBehavior(strategy=_strategy, views={"status": APIServiceStatusStrategy(_strategy)})
