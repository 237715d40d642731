"""ResourceQuota: limits the total resource consumption of a namespace."""

from collections.abc import Iterable, Mapping

from sampan.api.field_errors import FieldError
from sampan.api.go_compat.internal_view import encode_error_value
from sampan.api.types.core_v1 import ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus, ScopeSelector
from sampan.api.values.quantity import parse
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.podspec.resources import round_up, validate_resource_name, validate_resource_quantity
from sampan.apiserver.registry.strategy import Column, Context, StatusStrategy, Strategy
from sampan.apiserver.registry.validation import FieldErrors
from sampan.apiserver.tables.columns import AGE, NAME

_COMPUTE = {"cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"}
_STANDARD = _COMPUTE | {
    *("ephemeral-storage", "requests.ephemeral-storage", "limits.ephemeral-storage", "requests.storage"),
    *("pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "persistentvolumeclaims"),
    *("configmaps", "services.nodeports", "services.loadbalancers"),
}
_HUGE_PAGES = ("hugepages-", "requests.hugepages-")
_POD_RESOURCES = {"pods", *_COMPUTE}
_RESOURCES_BY_SCOPE = {
    "Terminating": _POD_RESOURCES,
    "NotTerminating": _POD_RESOURCES,
    "BestEffort": {"pods"},
    "NotBestEffort": _POD_RESOURCES,
    "CrossNamespacePodAffinity": _POD_RESOURCES,
    "PriorityClass": _POD_RESOURCES,
    "VolumeAttributesClass": {"persistentvolumeclaims", "requests.storage"},
}
"""The scopes, and the standard resources to which each can be applied."""
_SCOPES_WITH_VALUES = ("PriorityClass", "VolumeAttributesClass")
_OPPOSITES = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_NOT_EXISTS = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


_COLUMNS = (
    NAME,
    Column(
        "Request",
        lambda quota, now: _usage(quota, of_limits=False),
        description="Request represents a minimum amount of cpu/memory that a container may consume.",
    ),
    Column(
        "Limit",
        lambda quota, now: _usage(quota, of_limits=True),
        description=(
            "Limits control the maximum amount of cpu/memory that a container may use independent of contention on "
            "the node."
        ),
    ),
    AGE,
)


class ResourceQuotaStrategy(Strategy):
    columns = _COLUMNS
    return_deleted_object = True

    def default(self, obj: ResourceQuota) -> None:
        round_up(obj.spec.hard)
        round_up(obj.status.hard)
        round_up(obj.status.used)

    def prepare_for_create(self, ctx: Context, obj: ResourceQuota) -> None:
        obj.status = ResourceQuotaStatus()

    def validate_create(self, ctx: Context, obj: ResourceQuota) -> Iterable[FieldError]:
        return _validate_spec(obj.spec)

    def prepare_for_update(self, ctx: Context, obj: ResourceQuota, old: ResourceQuota) -> None:
        obj.status = old.status

    def validate_update(self, ctx: Context, obj: ResourceQuota, old: ResourceQuota) -> Iterable[FieldError]:
        yield from _validate_spec(obj.spec)
        if set(obj.spec.scopes) != set(old.spec.scopes):
            yield FieldError.invalid("spec.scopes", obj.spec.scopes or None, "field is immutable")

    def warnings(self, ctx: Context, obj: ResourceQuota, old: ResourceQuota | None) -> Iterable[str]:
        return _warnings(obj.spec.hard) if old is None else ()


class ResourceQuotaStatusStrategy(StatusStrategy):
    def validate_update(self, ctx: Context, obj: ResourceQuota, old: ResourceQuota) -> Iterable[FieldError]:
        yield from _validate_amount(obj.status.hard, "status.hard")
        yield from _validate_amount(obj.status.used, "status.used")


def _warnings(hard: Mapping[str, str]) -> Iterable[str]:
    for resource in ("cpu", "memory", "storage", "ephemeral-storage"):
        request, limit = f"requests.{resource}", f"limits.{resource}"
        if request not in hard and resource in ("cpu", "memory"):
            request = resource
        if request in hard and limit in hard and parse(hard[request]) > parse(hard[limit]):
            yield f"ResourceQuota {request} ({hard[request]}) should be less than {limit} ({hard[limit]})"


def _validate_spec(spec: ResourceQuotaSpec) -> FieldErrors:
    yield from _validate_amount(spec.hard, "spec.hard")
    yield from _validate_scope(spec)
    if spec.scopeSelector is not None:
        yield from _validate_selector(spec, spec.scopeSelector)


def _validate_amount(quantities: Mapping[str, str], field_path: str) -> FieldErrors:
    for name in sorted(quantities):
        path = f"{field_path}[{name}]"
        yield from validate_resource_name(name, path)
        if "/" not in name and not _is_standard(name):
            yield FieldError.invalid(path, name, "must be a standard resource for quota")
        yield from validate_resource_quantity(name, quantities[name], path)


def _is_standard(name: str) -> bool:
    return name in _STANDARD or name.startswith(_HUGE_PAGES)


def _is_plain(scope: str) -> bool:
    """Whether the scope takes no values."""
    return scope in _RESOURCES_BY_SCOPE and scope not in _SCOPES_WITH_VALUES


def _count_misapplied(scope: str, hard: Mapping[str, str]) -> int:
    """Return how many of the limited resources the scope cannot be applied to."""
    fitting = _RESOURCES_BY_SCOPE.get(scope)
    return 0 if fitting is None else sum(_is_standard(name) and name not in fitting for name in hard)


def _validate_scope(spec: ResourceQuotaSpec) -> FieldErrors:
    path = "spec.scopes"
    misapplied = {scope: _count_misapplied(scope, spec.hard) for scope in set(spec.scopes)}
    for scope in spec.scopes:
        if scope not in _RESOURCES_BY_SCOPE:
            yield FieldError.invalid(path, spec.scopes, "unsupported scope")
        for _ in range(misapplied[scope]):
            yield FieldError.invalid(path, spec.scopes, "unsupported scope applied to resource")
    for pair in _OPPOSITES:
        if pair <= set(spec.scopes):
            yield FieldError.invalid(path, spec.scopes, "conflicting scopes")


def _validate_selector(spec: ResourceQuotaSpec, selector: ScopeSelector) -> FieldErrors:
    path, whole = "spec.scopeSelector.matchExpressions", encode_error_value(selector)
    scopes = {term.scopeName for term in selector.matchExpressions}
    misapplied = {scope: _count_misapplied(scope, spec.hard) for scope in scopes}
    for term in selector.matchExpressions:
        if term.scopeName not in _RESOURCES_BY_SCOPE:
            yield FieldError.invalid(f"{path}.scopeName", term.scopeName, "unsupported scope")
        for _ in range(misapplied[term.scopeName]):
            yield FieldError.invalid(path, whole, "unsupported scope applied to resource")
        if _is_plain(term.scopeName) and term.operator != "Exists":
            yield FieldError.invalid(f"{path}.operator", term.operator, _NOT_EXISTS)
        yield from _validate_operator(term.operator, term.values, path)
    for pair in _OPPOSITES:
        if pair <= scopes:
            yield FieldError.invalid(path, spec.scopes or None, "conflicting scopes")


def _validate_operator(operator: str, values: list[str], path: str) -> FieldErrors:
    if operator in ("In", "NotIn"):
        if not values:
            text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            yield FieldError.required(f"{path}.values", text)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            yield FieldError.invalid(f"{path}.values", values, text)
    else:
        yield FieldError.invalid(f"{path}.operator", operator, "not a valid selector operator")


# -- table columns -----------------------------------------------------------------------------------------------------


def _usage(quota: ResourceQuota, *, of_limits: bool) -> str:
    hard, used = quota.status.hard, quota.status.used
    names = [name for name in sorted(hard) if name.startswith("limits.") == of_limits]
    return ", ".join([f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names])


_strategy = ResourceQuotaStrategy()
BEHAVIOR = ResourceBehavior(strategy=_strategy, views={"status": ResourceQuotaStatusStrategy(_strategy)})
