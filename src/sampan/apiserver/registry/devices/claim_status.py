"""Validation of a resource claim's status: the allocation, its consumers and the status of its devices, and who may
change them.

Changes of the allocation and the reservations need permission for `resourceclaims/binding`. Changes of the status of a
device need permission for `resourceclaims/driver` of its driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
from msgspec import structs

from sampan.api import addresses, names
from sampan.api.field_errors import FieldError
from sampan.api.semantics.resource_claims import MAX_CONSUMERS
from sampan.api.types.resource_v1 import (
    AllocatedDeviceStatus,
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceRequestAllocationResult,
    NetworkDeviceData,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
)
from sampan.apiserver.authz.authorizer import Attributes, AuthzDecision, AuthzResult, UnionAuthorizer, forbidden_error
from sampan.apiserver.registry.devices.claim_spec import (
    MAX_CONFIGURATIONS,
    MAX_REQUESTS,
    RequestNames,
    validate_opaque_configuration,
    validate_raw_object,
)
from sampan.apiserver.registry.devices.names import (
    validate_driver_name,
    validate_items,
    validate_pool_name,
)
from sampan.apiserver.registry.podspec.node_selection import validate_node_selector
from sampan.apiserver.registry.validation import (
    FieldErrors,
    is_same,
    validate_conditions,
    validate_dns_label,
    validate_qualified_name,
    validate_required,
)
from sampan.apiserver.request.call import is_service_account_on

MAX_BINDING_CONDITIONS = 4
_MAX_RESULTS, _MAX_DEVICES = 32, 1 << 31
_MAX_DEVICE_CONDITIONS, _MAX_IPS = 8, 16

DeviceId = tuple[str, str, str, str]


def device_id(device: DeviceRequestAllocationResult | AllocatedDeviceStatus) -> DeviceId:
    return device.driver, device.pool, device.device, device.shareID or ""


def drop_deallocated(new: ResourceClaimStatus, old: ResourceClaimStatus) -> None:
    """Drop the status of devices that are no longer allocated."""
    before = {device_id(result) for result in old.allocation.devices.results} if old.allocation is not None else set()
    now = {device_id(result) for result in new.allocation.devices.results} if new.allocation is not None else set()
    new.devices = [device for device in new.devices if device_id(device) not in before - now]


def validate_claim_status(claim: ResourceClaim, old: ResourceClaimStatus) -> FieldErrors:
    status, request_names = claim.status, RequestNames(claim.spec.devices)
    allocation = status.allocation
    allocated = {device_id(result) for result in allocation.devices.results} if allocation is not None else set()

    def validate_device(device: AllocatedDeviceStatus, path: str) -> FieldErrors:
        return _validate_allocated_device(device, allocated, path)

    yield from validate_items(status.reservedFor, MAX_CONSUMERS, _validate_consumer_reference, "status.reservedFor")
    yield from validate_items(status.devices, _MAX_DEVICES, validate_device, "status.devices")
    yield from _validate_reservation(claim, old)
    if allocation is not None and old.allocation is None:
        yield from _validate_allocation(allocation, request_names, "status.allocation")


def _device_path(device: AllocatedDeviceStatus) -> str:
    driver, pool, name, share = device_id(device)
    return "/".join((driver, pool, name, *((share,) if share else ())))


def _validate_reservation(claim: ResourceClaim, old: ResourceClaimStatus) -> FieldErrors:
    users, path = claim.status.reservedFor, "status.reservedFor"
    if not users:
        return
    if claim.status.allocation is None:
        yield FieldError.forbidden(path, "may not be specified when `allocated` is not set")
    elif claim.metadata.deletionTimestamp is not None and _has_new(users, old.reservedFor):
        text = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        yield FieldError.forbidden(path, text)


def _has_new(users: Sequence[ResourceClaimConsumerReference], old: Sequence[ResourceClaimConsumerReference]) -> bool:
    old_users = {structs.astuple(user) for user in old}
    return any(structs.astuple(user) not in old_users for user in users)


def _validate_consumer_reference(user: ResourceClaimConsumerReference, path: str) -> FieldErrors:
    for field in ("resource", "name", "uid"):
        yield from validate_required(getattr(user, field), f"{path}.{field}")


def _validate_allocation(allocation: AllocationResult, request_names: RequestNames, path: str) -> FieldErrors:
    def validate_result(result: DeviceRequestAllocationResult, item_path: str) -> FieldErrors:
        yield from request_names.validate_reference(result.request, f"{item_path}.request")
        yield from validate_dns_label(result.device, f"{item_path}.device")
        yield from validate_binding_conditions(result.bindingConditions, result.bindingFailureConditions, item_path)

    def validate_configuration(configuration: DeviceAllocationConfiguration, item_path: str) -> FieldErrors:
        yield from validate_items(
            configuration.requests, MAX_REQUESTS, request_names.validate_reference, f"{item_path}.requests"
        )
        yield from validate_opaque_configuration(configuration.opaque, item_path)

    devices = allocation.devices
    yield from validate_items(devices.results, _MAX_RESULTS, validate_result, f"{path}.devices.results")
    yield from validate_items(devices.config, 2 * MAX_CONFIGURATIONS, validate_configuration, f"{path}.devices.config")
    if allocation.nodeSelector is not None:
        yield from validate_node_selector(allocation.nodeSelector, f"{path}.nodeSelector")


def validate_binding_conditions(conditions: list[str], failures: list[str], path: str) -> FieldErrors:
    """Yield the errors of the binding conditions of a device and of its binding failure conditions."""
    conditions_path, failures_path = f"{path}.bindingConditions", f"{path}.bindingFailureConditions"
    yield from validate_items(conditions, MAX_BINDING_CONDITIONS, validate_qualified_name, conditions_path)
    yield from validate_items(failures, MAX_BINDING_CONDITIONS, validate_qualified_name, failures_path)
    distinct_conditions: set[str] = set()
    for index, condition in enumerate(conditions):
        if condition in distinct_conditions:
            yield FieldError.duplicate(f"{conditions_path}[{index}]", condition)
        distinct_conditions.add(condition)
    failed: set[str] = set()
    for index, condition in enumerate(failures):
        if condition in failed:
            yield FieldError.duplicate(f"{failures_path}[{index}]", condition)
        failed.add(condition)
        if condition in distinct_conditions:
            text = "bindingFailureConditions must not overlap with bindingConditions"
            yield FieldError.invalid(f"{failures_path}[{index}]", condition, text)
    if failures and not conditions:
        yield FieldError.invalid(
            conditions_path, None, "bindingConditions are required to use bindingFailureConditions"
        )
    if conditions and not failures:
        yield FieldError.invalid(failures_path, None, "bindingFailureConditions are required to use bindingConditions")


def _validate_allocated_device(device: AllocatedDeviceStatus, allocated: set[DeviceId], path: str) -> FieldErrors:
    yield from validate_driver_name(device.driver, f"{path}.driver")
    yield from validate_pool_name(device.pool, f"{path}.pool")
    yield from validate_dns_label(device.device, f"{path}.device")
    if device_id(device) not in allocated:
        yield FieldError.invalid(path, _device_path(device), "must be an allocated device in the claim")
    conditions = device.conditions or []
    if len(conditions) > _MAX_DEVICE_CONDITIONS:
        yield FieldError.too_many(f"{path}.conditions", len(conditions), _MAX_DEVICE_CONDITIONS)
    yield from validate_conditions(conditions, f"{path}.conditions")
    if bytes(device.data):
        yield from validate_raw_object(device.data, f"{path}.data")
    if device.networkData is not None:
        yield from _validate_network_data(device.networkData, f"{path}.networkData")


def _validate_network_data(data: NetworkDeviceData, path: str) -> FieldErrors:
    yield from validate_items(data.ips, _MAX_IPS, addresses.interface_address, f"{path}.ips")


_ASSOCIATED_NODE_PREFIX, _ARBITRARY_NODE_PREFIX = "associated-node:", "arbitrary-node:"


@dataclass(frozen=True, slots=True)
class RequiredPermission:
    """A required permission: any of `attributes` is enough, and the error names the first of them."""

    at: str
    why: str
    attributes: Sequence[Attributes]


async def validate_status_permissions(
    authorizer: UnionAuthorizer, needs: Iterator[RequiredPermission]
) -> list[FieldError]:
    errors = [await _refusal(authorizer, need) for need in needs]
    return [error for error in errors if error is not None]


async def _refusal(authorizer: UnionAuthorizer, need: RequiredPermission) -> FieldError | None:
    missed = []
    for attributes in need.attributes:
        result = await authorizer.authorize(attributes)
        if result.decision is AuthzDecision.ALLOW:
            return None
        missed.append(forbidden_error(attributes, _reason(result)).message)
    return FieldError.forbidden(need.at, f"{need.why} permission: {missed[0]}")


def _reason(result: AuthzResult) -> str:
    return ": ".join(part for part in (result.error, result.reason) if part)


def list_required_permissions(
    request: Attributes, new: ResourceClaimStatus, old: ResourceClaimStatus
) -> Iterator[RequiredPermission]:
    """Yield the permissions that the change requires. `request` holds the attributes of the request that makes it."""
    if not (is_same(new.allocation, old.allocation) and is_same(new.reservedFor, old.reservedFor)):
        yield _binding_permission(request)
    if new.allocation is not None:
        for driver in changed_drivers(new.devices, old.devices):
            yield _driver_permission(request, driver, node_of(new.allocation))


def _binding_permission(request: Attributes) -> RequiredPermission:
    """Return the permission for binding, which is checked at cluster scope whatever the claim's namespace is."""
    attributes = msgspec.structs.replace(request, subresource="binding", namespace="", name="")
    why = "changing status.allocation or status.reservedFor requires"
    return RequiredPermission(
        "status.allocation", f'{why} resource="resourceclaims/binding", verb="{request.verb}"', [attributes]
    )


def _driver_permission(request: Attributes, driver: str, node: str) -> RequiredPermission:
    is_there = not names.dns1123_subdomain(node) and is_service_account_on(request.user, node)
    verbs = [
        f"{prefix}{request.verb}"
        for prefix in ([_ASSOCIATED_NODE_PREFIX, _ARBITRARY_NODE_PREFIX] if is_there else [_ARBITRARY_NODE_PREFIX])
    ]
    requests = [msgspec.structs.replace(request, verb=verb, subresource="driver", name=driver) for verb in verbs]
    why = f'changing status.devices requires resource="resourceclaims/driver", verb="[{" ".join(verbs)}]"'
    return RequiredPermission("status.devices", why, requests)


def changed_drivers(new: Sequence[AllocatedDeviceStatus], old: Sequence[AllocatedDeviceStatus]) -> list[str]:
    """Return the drivers whose device status was changed, added or removed."""
    before = {device_id(device): device for device in old}
    changed = {device.driver for device in new if not is_same(before.pop(device_id(device), None), device)}
    return sorted(changed.union(device.driver for device in before.values()))


def node_of(allocation: AllocationResult) -> str:
    """Return the only node where the devices can be used, "" if the node selector is not for a single node name."""
    terms = allocation.nodeSelector.nodeSelectorTerms if allocation.nodeSelector is not None else None
    if not terms or len(terms) != 1 or terms[0].matchExpressions or len(terms[0].matchFields) != 1:
        return ""
    field = terms[0].matchFields[0]
    is_one = (field.key, field.operator) == ("metadata.name", "In") and len(field.values) == 1
    return field.values[0] if is_one else ""
