"""Validation of a whole pod spec, in the order in which kube-apiserver reports errors."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from sampan.api import names
from sampan.api.faults import FieldError
from sampan.api.types.core_v1 import PodReadinessGate, PodSchedulingGate, PodSpec, ResourceRequirements, Volume
from sampan.apiserver.registry.podspec.affinity import affinity_faults
from sampan.apiserver.registry.podspec.containers import (
    Surroundings,
    container_faults,
    ephemeral_container_faults,
    init_container_faults,
)
from sampan.apiserver.registry.podspec.dns import dns_faults, host_alias_faults, hostname_override_faults
from sampan.apiserver.registry.podspec.env import file_volume_faults
from sampan.apiserver.registry.podspec.formats import Faults, dns_label, dns_subdomain, labels, one_of, qualified
from sampan.apiserver.registry.podspec.ports import host_network_faults
from sampan.apiserver.registry.podspec.resources import claim_faults, pod_resource_faults, requirement_faults
from sampan.apiserver.registry.podspec.security import os_faults, pod_security_faults, user_namespace_faults
from sampan.apiserver.registry.podspec.tolerations import toleration_faults
from sampan.apiserver.registry.podspec.topology import spread_faults
from sampan.apiserver.registry.podspec.volumes import volume_faults
from sampan.apiserver.registry.podspec.windows import host_process_faults

if TYPE_CHECKING:
    from sampan.apiserver.registry.podspec.leniency import Leniency

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_MAX_INT32 = 2**31 - 1


def spec_faults(
    spec: PodSpec,
    lenient: Leniency,
    at: str = "spec",
    *,
    pod_name: str = "",
    pod_annotations: Mapping[str, str] | None = None,
) -> Faults:
    """Yield all errors of a spec with defaults applied. `pod_name` and `pod_annotations` are unset for a template."""
    if spec.terminationGracePeriodSeconds is None:
        yield FieldError.required(f"{at}.terminationGracePeriodSeconds")
    claims = {claim.name for claim in spec.resourceClaims if claim.name} if spec.resourceClaims else ()
    volumes: dict[str, Volume] = {}
    if spec.volumes:
        yield from volume_faults(spec.volumes, pod_name, lenient, f"{at}.volumes", volumes)
    if spec.resourceClaims:
        yield from claim_faults(spec.resourceClaims, pod_annotations or {}, f"{at}.resourceClaims")
    yield from _all_containers(spec, volumes, claims, lenient, at)
    yield from _settings(spec, lenient, at)
    yield from _placement(spec, lenient, at)
    yield from _identity(spec, lenient, at)
    yield from file_volume_faults(spec, at)


def _all_containers(
    spec: PodSpec, volumes: Mapping[str, Volume], claims: Collection[str], lenient: Leniency, at: str
) -> Faults:
    around = Surroundings(spec=spec, volumes=volumes, claims=claims, lenient=lenient)
    yield from container_faults(around, f"{at}.containers")
    if spec.initContainers:
        yield from init_container_faults(around, f"{at}.initContainers")
    if spec.ephemeralContainers:
        yield from ephemeral_container_faults(around, f"{at}.ephemeralContainers")
    if spec.resources is not None:
        yield from pod_resource_faults(spec, lenient, claims, f"{at}.resources")
    if spec.hostNetwork:
        yield from host_network_faults(spec.containers or (), f"{at}.containers", is_pod=lenient.is_pod)


def _settings(spec: PodSpec, lenient: Leniency, at: str) -> Faults:
    if spec.restartPolicy not in _RESTART_POLICIES:
        yield from one_of(spec.restartPolicy, _RESTART_POLICIES, f"{at}.restartPolicy")
    if spec.dnsPolicy not in _DNS_POLICIES:
        yield from one_of(spec.dnsPolicy, _DNS_POLICIES, f"{at}.dnsPolicy")
    if spec.nodeSelector:
        yield from labels(spec.nodeSelector, f"{at}.nodeSelector")
    yield from pod_security_faults(spec, lenient, f"{at}.securityContext")
    if spec.affinity is not None:
        yield from affinity_faults(spec.affinity, lenient, f"{at}.affinity")
    if spec.dnsConfig is not None or spec.dnsPolicy == "None":
        yield from dns_faults(spec, f"{at}.dnsConfig")


def _placement(spec: PodSpec, lenient: Leniency, at: str) -> Faults:
    if spec.readinessGates:
        yield from _readiness_gates(spec.readinessGates, f"{at}.readinessGates")
    if spec.schedulingGates:
        yield from _scheduling_gates(spec.schedulingGates, f"{at}.schedulingGates")
    if spec.topologySpreadConstraints:
        yield from spread_faults(spec.topologySpreadConstraints, lenient, f"{at}.topologySpreadConstraints")
    yield from host_process_faults(spec, at)
    if spec.hostUsers is False:
        yield from user_namespace_faults(spec, lenient, at)
    if spec.hostnameOverride is not None:
        yield from hostname_override_faults(spec, f"{at}.hostnameOverride")


def _readiness_gates(gates: list[PodReadinessGate], at: str) -> Faults:
    for index, gate in enumerate(gates):
        yield from qualified(gate.conditionType, f"{at}[{index}].conditionType")


def _scheduling_gates(gates: list[PodSchedulingGate], at: str) -> Faults:
    gate_names: set[str] = set()
    for index, gate in enumerate(gates):
        yield from qualified(gate.name, f"{at}[{index}]")
        if gate.name in gate_names:
            yield FieldError.duplicate(f"{at}[{index}]", gate.name)
        gate_names.add(gate.name)


def _identity(spec: PodSpec, lenient: Leniency, at: str) -> Faults:
    if spec.serviceAccountName:
        yield from dns_subdomain(spec.serviceAccountName, f"{at}.serviceAccountName")
    if spec.nodeName:
        yield from dns_subdomain(spec.nodeName, f"{at}.nodeName")
    if spec.activeDeadlineSeconds is not None and not 1 <= spec.activeDeadlineSeconds <= _MAX_INT32:
        text = names.out_of_range(1, _MAX_INT32)
        yield FieldError.invalid(f"{at}.activeDeadlineSeconds", spec.activeDeadlineSeconds, text)
    if spec.hostname:
        yield from dns_label(spec.hostname, f"{at}.hostname")
    if spec.subdomain:
        yield from dns_label(spec.subdomain, f"{at}.subdomain")
    if spec.tolerations:
        yield from toleration_faults(spec.tolerations, f"{at}.tolerations")
    if spec.hostAliases:
        yield from host_alias_faults(spec.hostAliases, f"{at}.hostAliases")
    yield from _classes(spec, lenient, at)


def _classes(spec: PodSpec, lenient: Leniency, at: str) -> Faults:
    if spec.priorityClassName:
        yield from dns_subdomain(spec.priorityClassName, f"{at}.priorityClassName")
    if spec.runtimeClassName is not None:
        yield from dns_subdomain(spec.runtimeClassName, f"{at}.runtimeClassName")
    if spec.preemptionPolicy is not None and spec.preemptionPolicy not in _PREEMPTION_POLICIES:
        yield from one_of(spec.preemptionPolicy, _PREEMPTION_POLICIES, f"{at}.preemptionPolicy")
    if spec.overhead:
        yield from requirement_faults(ResourceRequirements(limits=spec.overhead), lenient, f"{at}.overhead")
    if spec.os is not None:
        yield from os_faults(spec, at)
