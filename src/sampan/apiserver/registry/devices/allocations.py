"""Validation of a resource claim's status: the allocation, its consumers and the status of its devices."""

from collections.abc import Sequence

from msgspec import structs

from sampan.api import addresses, names
from sampan.api.faults import FieldError
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
from sampan.apiserver.registry.condition_rules import condition_faults
from sampan.apiserver.registry.devices.collections import distinct, each, itself
from sampan.apiserver.registry.devices.configurations import MOST_CONFIGURATIONS, object_faults, opaque_faults
from sampan.apiserver.registry.devices.naming import driver_faults, pool_faults, uid_faults
from sampan.apiserver.registry.devices.requests import MOST_REQUESTS, RequestNames
from sampan.apiserver.registry.podspec.formats import Faults, dns_label, fixed, given, one_of, qualified
from sampan.apiserver.registry.podspec.node_selectors import node_selector_faults

MOST_CONDITIONS = 4
_MOST_CONSUMERS, _MOST_RESULTS, _MOST_DEVICES = 256, 32, 1 << 31
_MOST_DEVICE_CONDITIONS, _MOST_IPS = 8, 16
_LONGEST_INTERFACE, _LONGEST_HARDWARE = 256, 128
_SOURCES = ("FromClaim", "FromClass")

DeviceId = tuple[str, str, str, str]


def device_id(found: DeviceRequestAllocationResult | AllocatedDeviceStatus) -> DeviceId:
    return found.driver, found.pool, found.device, found.shareID or ""


def drop_deallocated(new: ResourceClaimStatus, old: ResourceClaimStatus) -> None:
    """Drop the status of devices that are no longer allocated."""
    before = {device_id(result) for result in old.allocation.devices.results} if old.allocation is not None else set()
    now = {device_id(result) for result in new.allocation.devices.results} if new.allocation is not None else set()
    new.devices = [device for device in new.devices if device_id(device) not in before - now]


def status_faults(claim: ResourceClaim, old: ResourceClaimStatus) -> Faults:
    status, request_names = claim.status, RequestNames(claim.spec.devices)
    allocation = status.allocation
    allocated = {device_id(result) for result in allocation.devices.results} if allocation is not None else set()

    def device_faults(device: AllocatedDeviceStatus, at: str) -> Faults:
        return _device_faults(device, allocated, at)

    yield from distinct(
        status.reservedFor, _MOST_CONSUMERS, _consumer_faults, lambda user: user.uid, "status.reservedFor"
    )
    yield from distinct(status.devices, _MOST_DEVICES, device_faults, _told_id, "status.devices")
    yield from _reservation_faults(claim, old)
    if allocation is not None and old.allocation is not None:
        yield from fixed(allocation, old.allocation, "status.allocation")
    elif allocation is not None:
        yield from _allocation_faults(allocation, request_names, "status.allocation")


def _told_id(device: AllocatedDeviceStatus) -> str:
    driver, pool, name, share = device_id(device)
    return "/".join((driver, pool, name, *((share,) if share else ())))


def _reservation_faults(claim: ResourceClaim, old: ResourceClaimStatus) -> Faults:
    users, at = claim.status.reservedFor, "status.reservedFor"
    if not users:
        return
    if claim.status.allocation is None:
        yield FieldError.forbidden(at, "may not be specified when `allocated` is not set")
    elif claim.metadata.deletionTimestamp is not None and _has_new(users, old.reservedFor):
        text = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        yield FieldError.forbidden(at, text)


def _has_new(users: Sequence[ResourceClaimConsumerReference], old: Sequence[ResourceClaimConsumerReference]) -> bool:
    known = {structs.astuple(user) for user in old}
    return any(structs.astuple(user) not in known for user in users)


def _consumer_faults(user: ResourceClaimConsumerReference, at: str) -> Faults:
    for field in ("resource", "name", "uid"):
        yield from given(getattr(user, field), f"{at}.{field}")


def _allocation_faults(allocation: AllocationResult, known: RequestNames, at: str) -> Faults:
    def result_faults(result: DeviceRequestAllocationResult, here: str) -> Faults:
        yield from known.reference_faults(result.request, f"{here}.request")
        yield from driver_faults(result.driver, f"{here}.driver")
        yield from pool_faults(result.pool, f"{here}.pool")
        yield from dns_label(result.device, f"{here}.device")
        yield from binding_faults(result.bindingConditions, result.bindingFailureConditions, here)
        if result.shareID is not None:
            yield from uid_faults(result.shareID, f"{here}.shareID")

    def configuration_faults(found: DeviceAllocationConfiguration, here: str) -> Faults:
        yield from one_of(found.source, _SOURCES, f"{here}.source")
        yield from distinct(found.requests, MOST_REQUESTS, known.reference_faults, itself, f"{here}.requests")
        yield from opaque_faults(found.opaque, here)

    devices = allocation.devices
    yield from each(devices.results, _MOST_RESULTS, result_faults, f"{at}.devices.results")
    yield from each(devices.config, 2 * MOST_CONFIGURATIONS, configuration_faults, f"{at}.devices.config")
    if allocation.nodeSelector is not None:
        yield from node_selector_faults(allocation.nodeSelector, f"{at}.nodeSelector")


def binding_faults(conditions: list[str], failures: list[str], at: str) -> Faults:
    """Yield the errors of the binding conditions of a device and of its binding failure conditions."""
    conditions_path, failures_path = f"{at}.bindingConditions", f"{at}.bindingFailureConditions"
    yield from each(conditions, MOST_CONDITIONS, qualified, conditions_path)
    yield from each(failures, MOST_CONDITIONS, qualified, failures_path)
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


def _device_faults(device: AllocatedDeviceStatus, allocated: set[DeviceId], at: str) -> Faults:
    yield from driver_faults(device.driver, f"{at}.driver")
    yield from pool_faults(device.pool, f"{at}.pool")
    yield from dns_label(device.device, f"{at}.device")
    if device.shareID is not None:
        yield from uid_faults(device.shareID, f"{at}.shareID")
    if device_id(device) not in allocated:
        yield FieldError.invalid(at, _told_id(device), "must be an allocated device in the claim")
    conditions = device.conditions or []
    if len(conditions) > _MOST_DEVICE_CONDITIONS:
        yield FieldError.too_many(f"{at}.conditions", len(conditions), _MOST_DEVICE_CONDITIONS)
    yield from condition_faults(conditions, f"{at}.conditions")
    if device.data is not None:
        yield from object_faults(device.data, f"{at}.data")
    if device.networkData is not None:
        yield from _network_faults(device.networkData, f"{at}.networkData")


def _network_faults(data: NetworkDeviceData, at: str) -> Faults:
    if names.size(data.interfaceName) > _LONGEST_INTERFACE:
        yield FieldError.too_long(f"{at}.interfaceName", _LONGEST_INTERFACE)
    if names.size(data.hardwareAddress) > _LONGEST_HARDWARE:
        yield FieldError.too_long(f"{at}.hardwareAddress", _LONGEST_HARDWARE)
    yield from distinct(data.ips, _MOST_IPS, addresses.interface_address, itself, f"{at}.ips")
