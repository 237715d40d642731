"""Validation of containers, init containers and ephemeral containers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sampan.api.faults import FieldError
from sampan.api.types.core_v1 import Container, EphemeralContainer, PodSpec, Volume
from sampan.apiserver.registry.podspec.env import env_faults, env_from_faults
from sampan.apiserver.registry.podspec.everywhere import AnyContainer
from sampan.apiserver.registry.podspec.formats import Faults, dns_label, one_of
from sampan.apiserver.registry.podspec.mounts import device_faults, mount_faults
from sampan.apiserver.registry.podspec.ports import host_port_conflicts, port_faults
from sampan.apiserver.registry.podspec.probes import health_faults
from sampan.apiserver.registry.podspec.resources import requirement_faults
from sampan.apiserver.registry.podspec.restarts import init_restart_faults, resize_policy_faults, restart_faults
from sampan.apiserver.registry.podspec.security import container_security_faults

if TYPE_CHECKING:
    from sampan.apiserver.registry.podspec.leniency import Leniency

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_HEALTH = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The pod-level data that the validation of a container depends on."""

    spec: PodSpec
    volumes: Mapping[str, Volume]
    claims: Collection[str]
    lenient: Leniency


def container_faults(around: Surroundings, at: str) -> Faults:
    containers = around.spec.containers
    if not containers:
        yield FieldError.required(at)
        return
    container_names: set[str] = set()
    grace_s = around.spec.terminationGracePeriodSeconds
    for index, container in enumerate(containers):
        path = f"{at}[{index}]"
        yield from _any_container(container, around, path)
        if container.name in container_names:
            yield FieldError.duplicate(f"{path}.name", container.name)
        container_names.add(container.name)
        yield from health_faults(container, grace_s, path)
        if container.restartPolicy is not None or container.restartPolicyRules:
            yield from restart_faults(container, path)
    yield from host_port_conflicts(containers, at)


def init_container_faults(around: Surroundings, at: str) -> Faults:
    container_names = {container.name for container in around.spec.containers or ()}
    for index, container in enumerate(around.spec.initContainers):
        path = f"{at}[{index}]"
        yield from _any_container(container, around, path)
        yield from init_restart_faults(container, path)
        if container.name in container_names:
            yield FieldError.duplicate(f"{path}.name", container.name)
        elif container.name:
            container_names.add(container.name)
        yield from host_port_conflicts([container], at)
        if container.restartPolicy == "Always":
            yield from health_faults(container, around.spec.terminationGracePeriodSeconds, path)
        else:
            yield from _no_sidecar(container, around.lenient, path)


def _no_sidecar(container: Container, lenient: Leniency, at: str) -> Faults:
    """Yield errors for fields that an init container may only have as a sidecar."""
    for field in _HEALTH:
        if getattr(container, field) is not None:
            text = "may not be set for init containers without restartPolicy=Always"
            yield FieldError.forbidden(f"{at}.{field}", text)
    for index, policy in enumerate(container.resizePolicy):
        if policy.restartPolicy == "RestartContainer" and not lenient.restarted_init_containers:
            text = "must not be set to 'RestartContainer' for non-sidecar initContainers"
            path = f"{at}.resizePolicy[{index}].restartPolicy"
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
_NOTHING_SET = EphemeralContainer()


def ephemeral_container_faults(around: Surroundings, at: str) -> Faults:
    spec = around.spec
    others = {container.name for container in (*(spec.containers or ()), *spec.initContainers)}
    container_names = set(others)
    for index, container in enumerate(spec.ephemeralContainers):
        path, target = f"{at}[{index}]", container.targetContainerName
        yield from _any_container(container, around, path)
        yield from image_faults(container, path)
        if container.name in container_names:
            yield FieldError.duplicate(f"{path}.name", container.name)
        container_names.add(container.name)
        if target and target not in others:
            yield FieldError.not_found(f"{path}.targetContainerName", target)
        yield from _not_ephemeral(container, path)


def _not_ephemeral(container: EphemeralContainer, at: str) -> Faults:
    for field in _NOT_EPHEMERAL:
        if getattr(container, field) != getattr(_NOTHING_SET, field):
            yield FieldError.forbidden(f"{at}.{field}", _EPHEMERAL)
    for index, mount in enumerate(container.volumeMounts):
        for field in ("subPath", "subPathExpr"):
            if getattr(mount, field):
                yield FieldError.forbidden(f"{at}.volumeMounts[{index}].{field}", _EPHEMERAL)


def _any_container(container: AnyContainer, around: Surroundings, at: str) -> Faults:
    if not container.name:
        yield FieldError.required(f"{at}.name")
    else:
        yield from dns_label(container.name, f"{at}.name")
    if not container.image:
        yield FieldError.required(f"{at}.image")
    if container.terminationMessagePolicy not in _MESSAGE_POLICIES:
        yield from one_of(container.terminationMessagePolicy, _MESSAGE_POLICIES, f"{at}.terminationMessagePolicy")
    if container.ports:
        yield from port_faults(container.ports, f"{at}.ports")
    if container.env:
        yield from env_faults(container.env, f"{at}.env")
    if container.envFrom:
        yield from env_from_faults(container.envFrom, f"{at}.envFrom")
    if container.volumeMounts:
        yield from mount_faults(container, around.volumes, f"{at}.volumeMounts")
    if container.volumeDevices:
        yield from device_faults(container, around.volumes, f"{at}.volumeDevices")
    if container.imagePullPolicy not in PULL_POLICIES:
        yield from one_of(container.imagePullPolicy, PULL_POLICIES, f"{at}.imagePullPolicy")
    yield from requirement_faults(container.resources, around.lenient, f"{at}.resources", pod_claims=around.claims)
    if container.resizePolicy:
        yield from resize_policy_faults(container.resizePolicy, around.spec.restartPolicy, f"{at}.resizePolicy")
    if container.securityContext is not None:
        host_users = around.spec.hostUsers is not False
        yield from container_security_faults(container.securityContext, f"{at}.securityContext", host_users=host_users)


def image_faults(container: AnyContainer, at: str) -> Faults:
    """Yield errors for the image of a container in a pod; pod templates are not checked for these."""
    if container.image != container.image.strip():
        text = "must not have leading or trailing whitespace"
        yield FieldError.invalid(f"{at}.image", container.image, text)


def images_faults(containers: Sequence[AnyContainer], at: str) -> Faults:
    for index, container in enumerate(containers):
        yield from image_faults(container, f"{at}[{index}]")
