"""Validation of in-place pod resize, which may change only the cpu and memory of containers and of the pod."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import TYPE_CHECKING

from sampan.api.field_errors import FieldError
from sampan.api.semantics.pod_references import is_mirror_pod
from sampan.api.semantics.pod_resources import qos_class
from sampan.api.types.core_v1 import Container, Pod, PodSpec, ResourceRequirements
from sampan.apiserver.registry.podspec.spec import validate_pod
from sampan.apiserver.registry.validation import FieldErrors

if TYPE_CHECKING:
    from sampan.apiserver.registry.podspec.validation_options import PodValidationOptions

_RESIZED = ("cpu", "memory")
_PARTS = ("initContainers", "containers")


def keep_all_but_resources(new: Pod, old: Pod) -> bool:
    """Reset the spec to that of the old pod except for resources and resize policies.

    If containers were added or removed, nothing is reset (return False); if they were renamed or reordered, the new
    containers are kept. In both cases validation reports the change.
    """
    spec = new.spec
    if any(len(_part(new, part)) != len(_part(old, part)) for part in _PARTS):
        return False
    new.spec = copy(old.spec)
    new.spec.resources = spec.resources
    new.spec.containers = _resize_containers(spec.containers or [], old.spec.containers or [])
    new.spec.initContainers = _resize_containers(spec.initContainers, old.spec.initContainers)
    new.status = old.status
    return True


def _part(pod: Pod, part: str) -> list[Container]:
    return getattr(pod.spec, part) or []


def _resize_containers(new: list[Container], old: list[Container]) -> list[Container]:
    if [container.name for container in new] != [container.name for container in old]:
        return new
    containers = [copy(container) for container in old]
    for container, new_container in zip(containers, new, strict=True):
        container.resources, container.resizePolicy = new_container.resources, new_container.resizePolicy
    return containers


def validate_pod_resize(new: Pod, old: Pod, options: PodValidationOptions) -> FieldErrors:
    if is_mirror_pod(old):
        yield FieldError.forbidden("[]", "static pods cannot be resized")
        return
    if old.spec.os is not None and old.spec.os.name == "windows":
        yield FieldError.forbidden("[]", "windows pods cannot be resized")
        return
    pod_errors = [*validate_pod(new, options), *_validate_pod_is_resizable(new, old)]
    order = list(_validate_container_order(new, old))
    yield from pod_errors
    yield from order
    if order:
        return
    errors = list(_validate_container_changes(new, old))
    yield from errors
    if not pod_errors and not errors and _mask_spec(new.spec, old.spec) != old.spec:
        yield FieldError.forbidden("spec", "only cpu and memory resources are mutable")


def _validate_pod_is_resizable(new: Pod, old: Pod) -> FieldErrors:
    if (old.status.qosClass or qos_class(old.spec)) != qos_class(new.spec):
        text = "Pod QOS Class may not change as a result of resizing"
        yield FieldError.invalid("spec", new.status.qosClass, text)
    running = next((status for status in old.status.containerStatuses if status.state.running is not None), None)
    if running is not None and running.resources is None:
        yield FieldError.forbidden("spec", "Pod running on node without support for resize")
    yield from _validate_pod_level_resources(new.spec, old.spec)
    if old.status.nodeAllocatableResourceClaimStatuses:
        yield FieldError.forbidden("spec", "pods with node allocatable resource claims cannot be resized")


def _validate_pod_level_resources(new: PodSpec, old: PodSpec) -> FieldErrors:
    now, before = new.resources, old.resources
    if not any(resources is not None and (resources.requests or resources.limits) for resources in (now, before)):
        return
    if before is not None and now is None:
        yield FieldError.forbidden("spec.resources", "pod-level resources cannot be removed")
        return
    if before is not None and now is not None:
        if _removes(now.requests, before.requests):
            yield FieldError.forbidden("spec.resources.requests", "pod-level resource requests cannot be removed")
        if _removes(now.limits, before.limits):
            yield FieldError.forbidden("spec.resources.limits", "pod-level resource limits cannot be removed")
    if _mask_pod_resources(now, before) != before:
        yield FieldError.forbidden("spec", "only cpu and memory resources are mutable at pod-level")


def _validate_container_order(new: Pod, old: Pod) -> FieldErrors:
    for part in ("containers", "initContainers"):
        now, before = _part(new, part), _part(old, part)
        if len(now) != len(before):
            yield FieldError.forbidden(f"spec.{part}", f"{part} may not be added or removed on resize")
            continue
        for index, (container, old_container) in enumerate(zip(now, before, strict=True)):
            if container.name != old_container.name:
                text = f"{part} may not be renamed or reordered on resize"
                yield FieldError.forbidden(f"spec.{part}[{index}].name", text)


def _validate_container_changes(new: Pod, old: Pod) -> FieldErrors:
    for part in _PARTS:
        for index, (container, before) in enumerate(zip(_part(new, part), _part(old, part), strict=True)):
            path = f"spec.{part}[{index}].resources"
            if _removes(container.resources.requests, before.resources.requests):
                yield FieldError.forbidden(f"{path}.requests", "resource requests cannot be removed")
            if _removes(container.resources.limits, before.resources.limits):
                yield FieldError.forbidden(f"{path}.limits", "resource limits cannot be removed")
    for container, before in zip(_part(new, "containers"), _part(old, "containers"), strict=True):
        if _mask_container(container, before) != before:
            yield FieldError.forbidden("spec", "only cpu and memory resources are mutable")
    for index, (container, before) in enumerate(
        zip(_part(new, "initContainers"), _part(old, "initContainers"), strict=True)
    ):
        yield from _validate_init_container_change(container, before, f"spec.initContainers[{index}]")


def _validate_init_container_change(container: Container, before: Container, path: str) -> FieldErrors:
    if _mask_container(container, before) != before:
        yield FieldError.forbidden(path, "only cpu and memory resources for init or sidecar containers are mutable")
    if container != before and container.restartPolicy != "Always":
        for policy in container.resizePolicy:
            if policy.restartPolicy == "RestartContainer":
                text = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
                yield FieldError.forbidden(path, text)


def _removes(new: Mapping[str, str], old: Mapping[str, str]) -> bool:
    return any(name not in new for name in old)


# -- the new spec with the old cpu and memory -----------------------------------------------------------------------


def _mask_spec(new: PodSpec, old: PodSpec) -> PodSpec:
    masked = copy(new)
    masked.resources = _mask_pod_resources(new.resources, old.resources)
    for part in _PARTS:
        pairs = zip(getattr(new, part) or (), getattr(old, part) or (), strict=True)
        setattr(masked, part, [_mask_container(container, before) for container, before in pairs])
    return masked


def _mask_container(new: Container, old: Container) -> Container:
    masked = copy(new)
    masked.resources = _mask_requirements(new.resources, old.resources)
    return masked


def _mask_pod_resources(
    new: ResourceRequirements | None, old: ResourceRequirements | None
) -> ResourceRequirements | None:
    if new is None:
        return None
    masked = _mask_requirements(new, old or ResourceRequirements())
    masked.claims = new.claims
    return None if old is None and masked == ResourceRequirements() else masked


def _mask_requirements(new: ResourceRequirements, old: ResourceRequirements) -> ResourceRequirements:
    return ResourceRequirements(
        limits=_mask_amounts(new.limits, old.limits), requests=_mask_amounts(new.requests, old.requests)
    )


def _mask_amounts(new: Mapping[str, str], old: Mapping[str, str]) -> dict[str, str]:
    amounts = {name: amount for name, amount in new.items() if name not in _RESIZED}
    return amounts | {name: old[name] for name in _RESIZED if name in old}
