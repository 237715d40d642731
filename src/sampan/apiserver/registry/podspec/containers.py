"""Validation of containers, init containers and ephemeral containers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sampan.api.field_errors import FieldError
from sampan.api.semantics.pods import AnyContainer, init_and_main_containers
from sampan.api.types.core_v1 import Container, EphemeralContainer, PodSpec, Volume
from sampan.apiserver.registry.podspec.env import validate_env, validate_env_from
from sampan.apiserver.registry.podspec.lifecycle import (
    validate_container_restart_policy,
    validate_init_container_restart_policy,
    validate_probes_and_lifecycle,
    validate_resize_policy,
)
from sampan.apiserver.registry.podspec.ports import validate_container_ports, validate_host_port_conflicts
from sampan.apiserver.registry.podspec.resources import validate_resource_requirements
from sampan.apiserver.registry.podspec.security import validate_security_context
from sampan.apiserver.registry.podspec.volumes.validation import (
    PULL_POLICIES,
    validate_volume_devices,
    validate_volume_mounts,
)
from sampan.apiserver.registry.validation import FieldErrors, validate_dns_label, validate_one_of

if TYPE_CHECKING:
    from sampan.apiserver.registry.podspec.validation_options import PodValidationOptions

_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_HEALTH = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerContext:
    """The pod-level data that the validation of a container depends on."""

    spec: PodSpec
    volumes: Mapping[str, Volume]
    claims: Collection[str]
    options: PodValidationOptions


def validate_containers(context: ContainerContext, field_path: str) -> FieldErrors:
    containers = context.spec.containers
    if not containers:
        yield FieldError.required(field_path)
        return
    container_names: set[str] = set()
    grace_s = context.spec.terminationGracePeriodSeconds
    for index, container in enumerate(containers):
        path = f"{field_path}[{index}]"
        yield from _validate_container_common(container, context, path)
        if container.name in container_names:
            yield FieldError.duplicate(f"{path}.name", container.name)
        container_names.add(container.name)
        yield from validate_probes_and_lifecycle(container, grace_s, path)
        if container.restartPolicy is not None or container.restartPolicyRules:
            yield from validate_container_restart_policy(container, path)
    yield from validate_host_port_conflicts(containers, field_path)


def validate_init_containers(context: ContainerContext, field_path: str) -> FieldErrors:
    container_names = {container.name for container in context.spec.containers or ()}
    for index, container in enumerate(context.spec.initContainers):
        path = f"{field_path}[{index}]"
        yield from _validate_container_common(container, context, path)
        yield from validate_init_container_restart_policy(container, path)
        if container.name in container_names:
            yield FieldError.duplicate(f"{path}.name", container.name)
        elif container.name:
            container_names.add(container.name)
        yield from validate_host_port_conflicts([container], field_path)
        if container.restartPolicy == "Always":
            yield from validate_probes_and_lifecycle(container, context.spec.terminationGracePeriodSeconds, path)
        else:
            yield from _validate_non_sidecar(container, context.options, path)


def _validate_non_sidecar(container: Container, options: PodValidationOptions, field_path: str) -> FieldErrors:
    """Yield errors for fields that an init container may only have as a sidecar."""
    for field in _HEALTH:
        if getattr(container, field) is not None:
            text = "may not be set for init containers without restartPolicy=Always"
            yield FieldError.forbidden(f"{field_path}.{field}", text)
    for index, policy in enumerate(container.resizePolicy):
        if policy.restartPolicy == "RestartContainer" and not options.restarted_init_containers:
            text = "must not be set to 'RestartContainer' for non-sidecar initContainers"
            path = f"{field_path}.resizePolicy[{index}].restartPolicy"
            yield FieldError.invalid(path, policy.restartPolicy, text)


_EPHEMERAL = "cannot be set for an Ephemeral Container"
_NOT_EPHEMERAL = (
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
)
_EMPTY_CONTAINER = EphemeralContainer()


def validate_ephemeral_containers(context: ContainerContext, field_path: str) -> FieldErrors:
    spec = context.spec
    others = {container.name for container in init_and_main_containers(spec)}
    container_names = set(others)
    for index, container in enumerate(spec.ephemeralContainers):
        path, target = f"{field_path}[{index}]", container.targetContainerName
        yield from _validate_container_common(container, context, path)
        yield from validate_image(container, path)
        if container.name in container_names:
            yield FieldError.duplicate(f"{path}.name", container.name)
        container_names.add(container.name)
        if target and target not in others:
            yield FieldError.not_found(f"{path}.targetContainerName", target)
        yield from _validate_fields_allowed_for_ephemeral(container, path)


def _validate_fields_allowed_for_ephemeral(container: EphemeralContainer, path: str) -> FieldErrors:
    for field in _NOT_EPHEMERAL:
        if getattr(container, field) != getattr(_EMPTY_CONTAINER, field):
            yield FieldError.forbidden(f"{path}.{field}", _EPHEMERAL)
    for index, mount in enumerate(container.volumeMounts):
        for field in ("subPath", "subPathExpr"):
            if getattr(mount, field):
                yield FieldError.forbidden(f"{path}.volumeMounts[{index}].{field}", _EPHEMERAL)


def _validate_container_common(container: AnyContainer, context: ContainerContext, path: str) -> FieldErrors:
    if not container.name:
        yield FieldError.required(f"{path}.name")
    else:
        yield from validate_dns_label(container.name, f"{path}.name")
    if not container.image:
        yield FieldError.required(f"{path}.image")
    if container.terminationMessagePolicy not in _MESSAGE_POLICIES:
        yield from validate_one_of(
            container.terminationMessagePolicy, _MESSAGE_POLICIES, f"{path}.terminationMessagePolicy"
        )
    if container.ports:
        yield from validate_container_ports(container.ports, f"{path}.ports")
    if container.env:
        yield from validate_env(container.env, f"{path}.env")
    if container.envFrom:
        yield from validate_env_from(container.envFrom, f"{path}.envFrom")
    if container.volumeMounts:
        yield from validate_volume_mounts(container, context.volumes, f"{path}.volumeMounts")
    if container.volumeDevices:
        yield from validate_volume_devices(container, context.volumes, f"{path}.volumeDevices")
    if container.imagePullPolicy not in PULL_POLICIES:
        yield from validate_one_of(container.imagePullPolicy, PULL_POLICIES, f"{path}.imagePullPolicy")
    yield from validate_resource_requirements(
        container.resources, context.options, f"{path}.resources", pod_claims=context.claims
    )
    if container.resizePolicy:
        yield from validate_resize_policy(container.resizePolicy, context.spec.restartPolicy, f"{path}.resizePolicy")
    if container.securityContext is not None:
        host_users = context.spec.hostUsers is not False
        yield from validate_security_context(
            container.securityContext,
            f"{path}.securityContext",
            host_users=host_users,
            allows_unescalated_admin=context.options.unescalated_admins,
        )


def validate_image(container: AnyContainer, path: str) -> FieldErrors:
    """Yield errors for the image of a container in a pod; pod templates are not checked for these."""
    if container.image != container.image.strip():
        text = "must not have leading or trailing whitespace"
        yield FieldError.invalid(f"{path}.image", container.image, text)


def validate_images(containers: Sequence[AnyContainer], path: str) -> FieldErrors:
    for index, container in enumerate(containers):
        yield from validate_image(container, f"{path}[{index}]")
