"""Validation of updates of a pod's status."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sampan.api import addresses, names
from sampan.api.field_errors import FieldError
from sampan.api.go_compat.internal_view import encode_error_value
from sampan.api.semantics.pods import AnyContainer, init_and_main_containers
from sampan.api.types.core_v1 import (
    ContainerStatus,
    HostIP,
    LinuxContainerUser,
    Pod,
    PodCondition,
    PodExtendedResourceClaimStatus,
    PodIP,
    PodSpec,
    PodStatus,
    ResourceHealth,
    ResourceStatus,
)
from sampan.apiserver.registry.podspec.lifecycle import may_all_restart, may_restart
from sampan.apiserver.registry.podspec.pod_update import validate_annotations_of_update
from sampan.apiserver.registry.podspec.validation_options import PodValidationOptions
from sampan.apiserver.registry.validation import (
    FieldErrors,
    validate_dns_label,
    validate_qualified_name,
    validate_user_or_group_id,
)

_SYSTEM_CONDITIONS = ("PodScheduled", "Ready", "Initialized")
_HEALTHS = ("Healthy", "Unhealthy", "Unknown")
_MAX_MESSAGE_BYTES = 1024
_STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


def validate_pod_status_update(new: Pod, old: Pod, options: PodValidationOptions) -> FieldErrors:
    if new.metadata.annotations:
        yield from validate_annotations_of_update(new, old, options)
    status = new.status
    yield from _validate_conditions(status.conditions, "status.conditions")
    yield from _validate_nominated_node(status.nominatedNodeName, old, "status.nominatedNodeName")
    if status.observedGeneration < 0:
        text = "must be a non-negative integer"
        yield FieldError.invalid("status.observedGeneration", status.observedGeneration, text)
    if status.qosClass != old.status.qosClass:
        yield FieldError.invalid("status.qosClass", status.qosClass, "field is immutable")
    yield from _validate_container_state_transitions(status, old)
    yield from _validate_claims(new)
    yield from _validate_addresses(status, old.status)
    yield from _validate_container_users(new)
    yield from _validate_resource_health(new)


def _validate_conditions(conditions: Sequence[PodCondition], field_path: str) -> FieldErrors:
    for index, condition in enumerate(conditions):
        if condition.observedGeneration < 0:
            path = f"{field_path}[{index}].observedGeneration"
            yield FieldError.invalid(path, condition.observedGeneration, "must be a non-negative integer")
        if condition.type not in _SYSTEM_CONDITIONS:
            yield from validate_qualified_name(condition.type, f"{field_path}[{index}].Type")


def _validate_nominated_node(node: str, old: Pod, path: str) -> FieldErrors:
    if not node or node == old.status.nominatedNodeName:
        return
    for text in names.dns1123_subdomain(node):
        yield FieldError.invalid(path, node, text)
    if old.spec.nodeName:
        yield FieldError.forbidden(path, "may not be set on pods that are already bound to a node")


# -- terminated containers ---------------------------------------------------------------------------------------------


def _validate_container_state_transitions(new: PodStatus, old: Pod) -> FieldErrors:
    """Yield errors for containers that are no longer terminated although they may not be restarted."""
    if not any(status.state.terminated is not None for part in _STATUSES for status in getattr(old.status, part)):
        return
    spec = old.spec
    if not may_all_restart(spec):
        plain, init = spec.containers or [], spec.initContainers
        yield from _validate_no_restart_of_terminated(
            new.containerStatuses, old.status.containerStatuses, plain, spec, _STATUSES[0]
        )
        yield from _validate_no_restart_of_terminated(
            new.initContainerStatuses, old.status.initContainerStatuses, init, spec, _STATUSES[1]
        )
    ended = old.status.ephemeralContainerStatuses
    yield from _validate_no_restart_of_terminated(new.ephemeralContainerStatuses, ended, (), spec, _STATUSES[2])


def _validate_no_restart_of_terminated(
    new: Sequence[ContainerStatus],
    old: Sequence[ContainerStatus],
    containers: Sequence[AnyContainer],
    spec: PodSpec,
    part: str,
) -> FieldErrors:
    alive = {status.name for status in new if status.state.terminated is None}
    by_name = _index_by_name(containers)
    for index, before in enumerate(old):
        ended = before.state.terminated
        if ended is None:
            continue
        container = by_name.get(before.name)
        if before.name in alive and not (container is not None and may_restart(container, spec, ended.exitCode)):
            text = "may not be transitioned to non-terminated state"
            yield FieldError.forbidden(f"status.{part}[{index}].state", text)


def _index_by_name(containers: Sequence[AnyContainer]) -> dict[str, AnyContainer]:
    return {container.name: container for container in reversed(containers)}


# -- claims ----------------------------------------------------------------------------------------------------------


def _validate_claims(pod: Pod) -> FieldErrors:
    status, known_claim_names = pod.status, {claim.name for claim in pod.spec.resourceClaims}
    claim_names: set[str] = set()
    for index, claim in enumerate(status.resourceClaimStatuses):
        path = f"status.resourceClaimStatuses[{index}]"
        if claim.name not in known_claim_names:
            text = "must match the name of an entry in `spec.resourceClaims`"
            yield FieldError.invalid(f"{path}.name", claim.name, text)
        if claim.name in claim_names:
            yield FieldError.duplicate(f"{path}.name", claim.name)
        claim_names.add(claim.name)
        if claim.resourceClaimName is not None:
            for text in names.dns1123_subdomain(claim.resourceClaimName):
                yield FieldError.invalid(f"{path}.resourceClaimName", claim.resourceClaimName, text)
    if status.extendedResourceClaimStatus is not None:
        extended = status.extendedResourceClaimStatus
        yield from _validate_extended_claim(extended, pod.spec, "status.extendedResourceClaimStatus")


def _validate_extended_claim(status: PodExtendedResourceClaimStatus, spec: PodSpec, field_path: str) -> FieldErrors:
    if not status.requestMappings:
        yield FieldError.required(f"{field_path}.requestMappings", "at least one request mapping is required")
    containers = {container.name: container for container in init_and_main_containers(spec)}
    keys: set[tuple[str, str, str]] = set()
    for index, mapping in enumerate(status.requestMappings or ()):
        path, container = f"{field_path}.requestMappings[{index}]", containers.get(mapping.containerName)
        if container is None:
            text = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
            yield FieldError.invalid(f"{path}.containerName", mapping.containerName, text)
        elif mapping.resourceName not in container.resources.requests:
            text = (
                "must match the extended resource name of an entry in spec.initContainers.resources.requests or "
                "spec.containers.resources.requests"
            )
            yield FieldError.invalid(f"{path}.resourceName", mapping.resourceName, text)
        yield from validate_dns_label(mapping.requestName, f"{field_path}.requestName")
        key = (mapping.containerName, mapping.resourceName, mapping.requestName)
        if key in keys:
            for field in ("containerName", "resourceName", "requestName"):
                yield FieldError.duplicate(f"{path}.{field}", getattr(mapping, field))
        keys.add(key)
    if not status.resourceClaimName:
        yield FieldError.required(f"{field_path}.resourceClaimName")
        return
    for text in names.dns1123_subdomain(status.resourceClaimName):
        yield FieldError.invalid(f"{field_path}.resourceClaimName", status.resourceClaimName, text)


# -- addresses -------------------------------------------------------------------------------------------------------


def _validate_addresses(new: PodStatus, old: PodStatus) -> FieldErrors:
    if new.podIPs:
        yield from _validate_address_list(new.podIPs, old.podIPs, "status.podIPs")
    if not new.hostIPs:
        return
    if new.hostIP != new.hostIPs[0].ip:
        yield FieldError.invalid("status.hostIPs[0].ip", new.hostIPs[0].ip, "must be equal to `hostIP`")
    yield from _validate_address_list(new.hostIPs, old.hostIPs, "status.hostIPs")


def _validate_address_list(new: Sequence[PodIP | HostIP], old: Sequence[PodIP | HostIP], path: str) -> FieldErrors:
    """Yield errors of new addresses, and if there is more than one address per IP family."""
    old_addresses = {entry.ip for entry in old}
    for index, entry in enumerate(new):
        if entry.ip not in old_addresses:
            yield from addresses.legacy_ip(entry.ip, f"{path}[{index}]")
    if len(new) < 2:
        return
    parsed = [addresses.parse(entry.ip) for entry in new]
    if None in parsed:
        index = parsed.index(None)
        text = f"failed to check for dual stack with error:invalid IP[{index}]: {new[index].ip}"
        yield FieldError.internal(path, text)
    families = {address.version for address in parsed if address is not None}
    if len(new) > 2 or len(families) != 2:
        yield FieldError.invalid(
            path, encode_error_value(list(new)), "may specify no more than one IP for each IP family"
        )


# -- users and device health -------------------------------------------------------------------------------------------


def _validate_container_users(pod: Pod) -> FieldErrors:
    system = pod.spec.os.name if pod.spec.os is not None else "linux"
    for part in _STATUSES:
        for index, status in enumerate(getattr(pod.status, part)):
            user = status.user.linux if status.user is not None else None
            if user is None:
                continue
            path = f"status.{part}[{index}].user.linux"
            if system == "windows":
                yield FieldError.forbidden(path, "cannot be set for a windows pod")
            elif system == "linux":
                yield from _validate_linux_user(user, path)


_MAX_UID = 2**32


def _validate_linux_user(user: LinuxContainerUser, path: str) -> FieldErrors:
    if not 0 <= user.uid < _MAX_UID:
        yield FieldError.invalid(f"{path}.uid", user.uid, names.out_of_range_message(0, _MAX_UID - 1))
    yield from validate_user_or_group_id(user.gid, f"{path}.gid")
    for group_index, group in enumerate(user.supplementalGroups):
        yield from validate_user_or_group_id(group, f"{path}.supplementalGroups[{group_index}]")


def _validate_resource_health(pod: Pod) -> FieldErrors:
    of_part = {_STATUSES[0]: pod.spec.containers or [], _STATUSES[1]: pod.spec.initContainers}
    for part, containers in of_part.items():
        statuses = getattr(pod.status, part)
        by_name = _index_by_name(containers) if statuses else {}
        for index, status in enumerate(statuses):
            if not status.allocatedResourcesStatus:
                continue
            container = by_name.get(status.name)
            claims = _claim_names(container) if container is not None else set()
            for resource_index, resource in enumerate(status.allocatedResourcesStatus):
                path = f"status.{part}[{index}].allocatedResourcesStatus[{resource_index}]"
                if container is not None:
                    yield from _validate_known_resource(resource, container, claims, f"{path}.name")
                yield from _validate_devices(resource.resources, f"{path}.resources")
    for index, status in enumerate(pod.status.ephemeralContainerStatuses):
        if status.allocatedResourcesStatus:
            path = f"status.ephemeralContainerStatuses[{index}].allocatedResourcesStatus"
            yield FieldError.forbidden(path, "must not be specified in container status")


def _claim_names(container: AnyContainer) -> set[str]:
    claims = container.resources.claims
    return {f"claim:{claim.name}" + (f"/{claim.request}" if claim.request else "") for claim in claims}


def _validate_known_resource(
    resource: ResourceStatus, container: AnyContainer, claims: Collection[str], path: str
) -> FieldErrors:
    claim_names: Collection[str] = claims
    if resource.name.startswith("claim:"):
        text = (
            "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or "
            "'claim:<claimName>' if request is empty"
        )
    else:
        claim_names, text = container.resources.requests, "must match one of the container's resource requests"
    if resource.name not in claim_names:
        yield FieldError.invalid(path, resource.name, text)


def _validate_devices(devices: Sequence[ResourceHealth], path: str) -> FieldErrors:
    resource_ids: set[str] = set()
    for index, device in enumerate(devices):
        if device.health not in _HEALTHS:
            yield FieldError.not_supported(f"{path}[{index}].health", device.health, _HEALTHS)
        if device.message == "":
            yield FieldError.required(f"{path}[{index}].message", "must be non-empty if specified")
        elif device.message is not None and len(device.message.encode()) > _MAX_MESSAGE_BYTES:
            yield FieldError.too_long(f"{path}[{index}].message", _MAX_MESSAGE_BYTES)
        if device.resourceID in resource_ids:
            yield FieldError.duplicate(f"{path}[{index}].resourceID", device.resourceID)
        resource_ids.add(device.resourceID)
