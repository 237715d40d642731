"""Validation of a whole pod spec, in the order in which kube-apiserver reports errors."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from sampan.api import names
from sampan.api.faults import FieldError
from sampan.api.types.core_v1 import PodReadinessGate, PodSchedulingGate, PodSpec, ResourceRequirements, Volume
from sampan.apiserver.registry.podspec.affinity import validate_affinity
from sampan.apiserver.registry.podspec.containers import (
    Surroundings,
    validate_containers,
    validate_ephemeral_containers,
    validate_init_containers,
)
from sampan.apiserver.registry.podspec.dns import validate_dns, validate_host_alias, validate_hostname_override
from sampan.apiserver.registry.podspec.env import validate_file_volume
from sampan.apiserver.registry.podspec.formats import (
    FieldErrors,
    validate_dns_label,
    validate_dns_subdomain,
    validate_labels,
    validate_one_of,
    validate_qualified_name,
)
from sampan.apiserver.registry.podspec.ports import validate_host_network_ports
from sampan.apiserver.registry.podspec.resources import (
    validate_pod_resource_claims,
    validate_pod_resources,
    validate_resource_requirements,
)
from sampan.apiserver.registry.podspec.security import (
    validate_os,
    validate_pod_security_context,
    validate_user_namespace,
)
from sampan.apiserver.registry.podspec.tolerations import validate_tolerations
from sampan.apiserver.registry.podspec.topology import validate_topology_spread_constraints
from sampan.apiserver.registry.podspec.volumes import validate_volumes
from sampan.apiserver.registry.podspec.windows import validate_host_process

if TYPE_CHECKING:
    from sampan.apiserver.registry.podspec.validation_options import PodValidationOptions

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_MAX_INT32 = 2**31 - 1


def validate_pod_spec(
    spec: PodSpec,
    options: PodValidationOptions,
    at: str = "spec",
    *,
    pod_name: str = "",
    pod_annotations: Mapping[str, str] | None = None,
) -> FieldErrors:
    """Yield all errors of a spec with defaults applied. `pod_name` and `pod_annotations` are unset for a template."""
    if spec.terminationGracePeriodSeconds is None:
        yield FieldError.required(f"{at}.terminationGracePeriodSeconds")
    claims = {claim.name for claim in spec.resourceClaims if claim.name} if spec.resourceClaims else ()
    volumes: dict[str, Volume] = {}
    if spec.volumes:
        yield from validate_volumes(spec.volumes, pod_name, options, f"{at}.volumes", volumes)
    if spec.resourceClaims:
        yield from validate_pod_resource_claims(spec.resourceClaims, pod_annotations or {}, f"{at}.resourceClaims")
    yield from _validate_all_containers(spec, volumes, claims, options, at)
    yield from _validate_settings(spec, options, at)
    yield from _validate_placement(spec, options, at)
    yield from _validate_hostname_and_account(spec, options, at)
    yield from validate_file_volume(spec, at)


def _validate_all_containers(
    spec: PodSpec, volumes: Mapping[str, Volume], claims: Collection[str], options: PodValidationOptions, at: str
) -> FieldErrors:
    around = Surroundings(spec=spec, volumes=volumes, claims=claims, options=options)
    yield from validate_containers(around, f"{at}.containers")
    if spec.initContainers:
        yield from validate_init_containers(around, f"{at}.initContainers")
    if spec.ephemeralContainers:
        yield from validate_ephemeral_containers(around, f"{at}.ephemeralContainers")
    if spec.resources is not None:
        yield from validate_pod_resources(spec, options, claims, f"{at}.resources")
    if spec.hostNetwork:
        yield from validate_host_network_ports(spec.containers or (), f"{at}.containers", is_pod=options.is_pod)


def _validate_settings(spec: PodSpec, options: PodValidationOptions, at: str) -> FieldErrors:
    if spec.restartPolicy not in _RESTART_POLICIES:
        yield from validate_one_of(spec.restartPolicy, _RESTART_POLICIES, f"{at}.restartPolicy")
    if spec.dnsPolicy not in _DNS_POLICIES:
        yield from validate_one_of(spec.dnsPolicy, _DNS_POLICIES, f"{at}.dnsPolicy")
    if spec.nodeSelector:
        yield from validate_labels(spec.nodeSelector, f"{at}.nodeSelector")
    yield from validate_pod_security_context(spec, options, f"{at}.securityContext")
    if spec.affinity is not None:
        yield from validate_affinity(spec.affinity, options, f"{at}.affinity")
    if spec.dnsConfig is not None or spec.dnsPolicy == "None":
        yield from validate_dns(spec, f"{at}.dnsConfig")


def _validate_placement(spec: PodSpec, options: PodValidationOptions, at: str) -> FieldErrors:
    if spec.readinessGates:
        yield from _validate_readiness_gates(spec.readinessGates, f"{at}.readinessGates")
    if spec.schedulingGates:
        yield from _validate_scheduling_gates(spec.schedulingGates, f"{at}.schedulingGates")
    if spec.topologySpreadConstraints:
        yield from validate_topology_spread_constraints(
            spec.topologySpreadConstraints, options, f"{at}.topologySpreadConstraints"
        )
    yield from validate_host_process(spec, at)
    if spec.hostUsers is False:
        yield from validate_user_namespace(spec, options, at)
    if spec.hostnameOverride is not None:
        yield from validate_hostname_override(spec, f"{at}.hostnameOverride")


def _validate_readiness_gates(gates: list[PodReadinessGate], at: str) -> FieldErrors:
    for index, gate in enumerate(gates):
        yield from validate_qualified_name(gate.conditionType, f"{at}[{index}].conditionType")


def _validate_scheduling_gates(gates: list[PodSchedulingGate], at: str) -> FieldErrors:
    gate_names: set[str] = set()
    for index, gate in enumerate(gates):
        yield from validate_qualified_name(gate.name, f"{at}[{index}]")
        if gate.name in gate_names:
            yield FieldError.duplicate(f"{at}[{index}]", gate.name)
        gate_names.add(gate.name)


def _validate_hostname_and_account(spec: PodSpec, options: PodValidationOptions, at: str) -> FieldErrors:
    if spec.serviceAccountName:
        yield from validate_dns_subdomain(spec.serviceAccountName, f"{at}.serviceAccountName")
    if spec.nodeName:
        yield from validate_dns_subdomain(spec.nodeName, f"{at}.nodeName")
    if spec.activeDeadlineSeconds is not None and not 1 <= spec.activeDeadlineSeconds <= _MAX_INT32:
        text = names.out_of_range(1, _MAX_INT32)
        yield FieldError.invalid(f"{at}.activeDeadlineSeconds", spec.activeDeadlineSeconds, text)
    if spec.hostname:
        yield from validate_dns_label(spec.hostname, f"{at}.hostname")
    if spec.subdomain:
        yield from validate_dns_label(spec.subdomain, f"{at}.subdomain")
    if spec.tolerations:
        yield from validate_tolerations(spec.tolerations, f"{at}.tolerations")
    if spec.hostAliases:
        yield from validate_host_alias(spec.hostAliases, f"{at}.hostAliases")
    yield from _validate_priority_and_runtime_class(spec, options, at)


def _validate_priority_and_runtime_class(spec: PodSpec, options: PodValidationOptions, at: str) -> FieldErrors:
    if spec.priorityClassName:
        yield from validate_dns_subdomain(spec.priorityClassName, f"{at}.priorityClassName")
    if spec.runtimeClassName is not None:
        yield from validate_dns_subdomain(spec.runtimeClassName, f"{at}.runtimeClassName")
    if spec.preemptionPolicy is not None and spec.preemptionPolicy not in _PREEMPTION_POLICIES:
        yield from validate_one_of(spec.preemptionPolicy, _PREEMPTION_POLICIES, f"{at}.preemptionPolicy")
    if spec.overhead:
        yield from validate_resource_requirements(ResourceRequirements(limits=spec.overhead), options, f"{at}.overhead")
    if spec.os is not None:
        yield from validate_os(spec, at)
