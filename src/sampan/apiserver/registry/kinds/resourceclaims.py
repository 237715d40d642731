"""ResourceClaim: a request for devices, and their allocation."""

from collections.abc import Iterable, Sequence

from sampan.api.field_errors import FieldError
from sampan.api.go_compat import gotext
from sampan.api.types.base import NO_JSON
from sampan.api.types.resource_v1 import DeviceRequest, ResourceClaim, ResourceClaimStatus
from sampan.api.values.scalars import RawJSON
from sampan.apiserver.authz.authorizer import Attributes
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.devices.claim_spec import default_claim, default_configurations, validate_claim_spec
from sampan.apiserver.registry.devices.claim_status import (
    drop_deallocated,
    list_required_permissions,
    validate_claim_status,
    validate_status_permissions,
)
from sampan.apiserver.registry.strategy import Column, Context, StatusStrategy, Strategy
from sampan.apiserver.registry.validation import FieldErrors
from sampan.apiserver.tables.columns import AGE, NAME

_ADMIN_LABEL = "resource.kubernetes.io/admin-access"


def _state(claim: ResourceClaim, now: float) -> str:
    is_deleted, allocation = claim.metadata.deletionTimestamp is not None, claim.status.allocation
    states = ["deleted"] if is_deleted else []
    if allocation is not None:
        states += ["allocated", "reserved"] if claim.status.reservedFor else ["allocated"]
    elif not is_deleted:
        states.append("pending")
    return ",".join(states)


_COLUMNS = (
    NAME,
    Column("State", _state, description="A summary of the current state (allocated, pending, reserved, etc.)."),
    AGE,
)


class ResourceClaimStrategy(Strategy):
    columns = _COLUMNS
    return_deleted_object = True
    validates_immutable_parts = False
    has_expressions = True

    def default(self, obj: ResourceClaim) -> None:
        default_claim(obj.spec.devices)
        for device in obj.status.devices:
            device.conditions = device.conditions or None
            if bytes(device.data):
                raw = gotext.compact_json(device.data)
                device.data = NO_JSON if raw == b"null" else RawJSON(raw)
        if obj.status.allocation is not None:
            default_configurations(obj.status.allocation.devices.config)
        for result in obj.status.allocation.devices.results if obj.status.allocation is not None else ():
            for toleration in result.tolerations:
                toleration.operator = toleration.operator or "Equal"

    def prepare_for_create(self, ctx: Context, obj: ResourceClaim) -> None:
        obj.status = ResourceClaimStatus()

    def validate_create(self, ctx: Context, obj: ResourceClaim) -> Iterable[FieldError]:
        yield from validate_admin_access(ctx, obj.spec.devices.requests or ())
        yield from validate_claim_spec(obj.spec.devices, "spec.devices")

    def prepare_for_update(self, ctx: Context, obj: ResourceClaim, old: ResourceClaim) -> None:
        obj.status = old.status


class ResourceClaimStatusStrategy(StatusStrategy):
    keeps_metadata = True

    def prepare_for_update(self, ctx: Context, obj: ResourceClaim, old: ResourceClaim) -> None:
        super().prepare_for_update(ctx, obj, old)
        drop_deallocated(obj.status, old.status)

    async def validate_permissions(self, ctx: Context, obj: ResourceClaim, old: ResourceClaim) -> Sequence[FieldError]:
        indexes = _admin_results(obj.status) if not _admin_results(old.status) else ()
        errors = list(_validate_admin_access_label(ctx, indexes, "status.allocation.devices.results"))
        if ctx.services.security is not None:
            needs = list_required_permissions(_request(ctx, obj), obj.status, old.status)
            errors += await validate_status_permissions(ctx.services.security.authorizer, needs)
        return errors

    def validate_update(self, ctx: Context, obj: ResourceClaim, old: ResourceClaim) -> Iterable[FieldError]:
        return validate_claim_status(obj, old.status)


def _request(ctx: Context, claim: ResourceClaim) -> Attributes:
    return Attributes(
        ctx.user,
        ctx.verb,
        group="resource.k8s.io",
        version=ctx.version,
        resource="resourceclaims",
        subresource=ctx.subresource,
        namespace=ctx.namespace,
        name=claim.metadata.name,
    )


def _admin_results(status: ResourceClaimStatus) -> list[int]:
    results = status.allocation.devices.results if status.allocation is not None else ()
    return [index for index, result in enumerate(results) if result.adminAccess]


def validate_admin_access(ctx: Context, requests: Sequence[DeviceRequest]) -> FieldErrors:
    indexes = [
        index for index, request in enumerate(requests) if request.exactly is not None and request.exactly.adminAccess
    ]
    return _validate_admin_access_label(ctx, indexes, "spec.devices.requests")


def _validate_admin_access_label(ctx: Context, indexes: Sequence[int], path: str) -> FieldErrors:
    """Yield an error if admin access to devices is requested in a namespace without the label that permits it."""
    if not indexes:
        return
    namespace = ctx.services.open_store_of("", "v1", "Namespace").peek("", ctx.namespace)
    if namespace is None or namespace.metadata.labels.get(_ADMIN_LABEL) != "true":
        text = f"admin access to devices requires the `{_ADMIN_LABEL}: true` label on the containing namespace"
        yield FieldError.forbidden(f"{path}[{indexes[0]}].adminAccess", text)


_strategy = ResourceClaimStrategy()
BEHAVIOR = ResourceBehavior(strategy=_strategy, views={"status": ResourceClaimStatusStrategy(_strategy)})
