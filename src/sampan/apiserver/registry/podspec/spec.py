"""Validation of a pod spec, and of the pods and pod templates that contain one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from sampan.api import addresses, names
from sampan.api.field_errors import FieldError
from sampan.api.types.core_v1 import (
    HostAlias,
    Pod,
    PodDNSConfig,
    PodReadinessGate,
    PodSchedulingGate,
    PodSpec,
    PodTemplateSpec,
    ResourceRequirements,
    Volume,
)
from sampan.apiserver.registry import metadata
from sampan.apiserver.registry.podspec import pod_annotations
from sampan.apiserver.registry.podspec.affinity import validate_affinity, validate_topology_spread_constraints
from sampan.apiserver.registry.podspec.containers import (
    ContainerContext,
    validate_containers,
    validate_ephemeral_containers,
    validate_images,
    validate_init_containers,
)
from sampan.apiserver.registry.podspec.env import validate_file_volume
from sampan.apiserver.registry.podspec.node_selection import validate_tolerations
from sampan.apiserver.registry.podspec.pod_annotations import validate_pod_annotations
from sampan.apiserver.registry.podspec.ports import validate_host_network_ports
from sampan.apiserver.registry.podspec.resources import (
    validate_pod_resource_claims,
    validate_pod_resources,
    validate_resource_requirements,
)
from sampan.apiserver.registry.podspec.security import (
    validate_host_process,
    validate_os,
    validate_pod_security_context,
    validate_shared_process_namespace,
    validate_user_namespace,
)
from sampan.apiserver.registry.podspec.validation_options import NEW_POD
from sampan.apiserver.registry.podspec.volumes.validation import validate_volumes
from sampan.apiserver.registry.validation import (
    FieldErrors,
    validate_dns_label,
    validate_dns_subdomain,
    validate_labels,
    validate_one_of,
    validate_qualified_name,
)

if TYPE_CHECKING:
    from sampan.apiserver.registry.podspec.validation_options import PodValidationOptions

_MAX_NAMESERVERS = 3
_MAX_SEARCH_PATHS = 32
_MAX_SEARCH_LIST_LENGTH = 2048
_MAX_HOSTNAME_BYTES = 64


def validate_dns(spec: PodSpec, path: str) -> FieldErrors:
    config = spec.dnsConfig
    if spec.dnsPolicy == "None":
        if config is None:
            yield FieldError.required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not config.nameservers:
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield FieldError.required(f"{path}.nameservers", text)
            return
    if config is not None:
        yield from _validate_nameservers(config, f"{path}.nameservers")
        yield from _validate_searches(config, f"{path}.searches")
        for index, option in enumerate(config.options):
            if not option.name:
                yield FieldError.required(f"{path}.options[{index}]", "must not be empty")


def _validate_nameservers(config: PodDNSConfig, path: str) -> FieldErrors:
    if len(config.nameservers) > _MAX_NAMESERVERS:
        text = f"must not have more than {_MAX_NAMESERVERS} nameservers"
        yield FieldError.invalid(path, config.nameservers, text)
    for index, server in enumerate(config.nameservers):
        yield from addresses.legacy_ip(server, f"{path}[{index}]")


def _validate_searches(config: PodDNSConfig, path: str) -> FieldErrors:
    searches = config.searches
    if len(searches) > _MAX_SEARCH_PATHS:
        yield FieldError.invalid(path, searches, f"must not have more than {_MAX_SEARCH_PATHS} search paths")
    if len(" ".join(searches).encode()) > _MAX_SEARCH_LIST_LENGTH:
        text = f"must not have more than {_MAX_SEARCH_LIST_LENGTH} characters (including spaces) in the search list"
        yield FieldError.invalid(path, searches, text)
    for index, search in enumerate(searches):
        if search == ".":
            continue
        domain = search.removesuffix(".")
        for text in names.dns1123_subdomain_with_underscore(domain):
            yield FieldError.invalid(f"{path}[{index}]", domain, text)


def validate_host_alias(aliases: list[HostAlias], path: str) -> FieldErrors:
    for index, alias in enumerate(aliases):
        yield from addresses.legacy_ip(alias.ip, f"{path}[{index}].ip")
        for hostname_index, hostname in enumerate(alias.hostnames):
            yield from validate_dns_subdomain(hostname, f"{path}[{index}].hostnames[{hostname_index}]")


def validate_hostname_override(spec: PodSpec, path: str) -> FieldErrors:
    override = spec.hostnameOverride
    if override is None:
        return
    if spec.setHostnameAsFQDN:
        yield FieldError.forbidden(path, "may not be specified when setHostnameAsFQDN is true")
    if spec.hostNetwork:
        yield FieldError.forbidden(path, "may not be specified when hostNetwork is true")
    if len(override.encode()) > _MAX_HOSTNAME_BYTES:
        yield FieldError.too_long(path, _MAX_HOSTNAME_BYTES)
    yield from validate_dns_subdomain(override, path)


_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_MAX_INT32 = 2**31 - 1


def validate_pod_spec(
    spec: PodSpec,
    options: PodValidationOptions,
    path: str = "spec",
    *,
    pod_name: str = "",
    pod_annotations: Mapping[str, str] | None = None,
) -> FieldErrors:
    """Yield all errors of a spec with defaults applied. `pod_name` and `pod_annotations` are unset for a template."""
    if spec.terminationGracePeriodSeconds is None:
        yield FieldError.required(f"{path}.terminationGracePeriodSeconds")
    claims = {claim.name for claim in spec.resourceClaims if claim.name} if spec.resourceClaims else ()
    volumes: dict[str, Volume] = {}
    if spec.volumes:
        yield from validate_volumes(spec.volumes, pod_name, options, f"{path}.volumes", volumes)
    if spec.resourceClaims:
        yield from validate_pod_resource_claims(spec.resourceClaims, pod_annotations or {}, f"{path}.resourceClaims")
    yield from _validate_all_containers(spec, volumes, claims, options, path)
    yield from _validate_settings(spec, options, path)
    yield from _validate_placement(spec, options, path)
    yield from _validate_hostname_and_account(spec, options, path)
    yield from validate_file_volume(spec, path)


def _validate_all_containers(
    spec: PodSpec, volumes: Mapping[str, Volume], claims: Collection[str], options: PodValidationOptions, path: str
) -> FieldErrors:
    context = ContainerContext(spec=spec, volumes=volumes, claims=claims, options=options)
    yield from validate_containers(context, f"{path}.containers")
    if spec.initContainers:
        yield from validate_init_containers(context, f"{path}.initContainers")
    if spec.ephemeralContainers:
        yield from validate_ephemeral_containers(context, f"{path}.ephemeralContainers")
    if spec.resources is not None:
        yield from validate_pod_resources(spec, options, claims, f"{path}.resources")
    if spec.hostNetwork:
        yield from validate_host_network_ports(spec.containers or (), f"{path}.containers", is_pod=options.is_pod)


def _validate_settings(spec: PodSpec, options: PodValidationOptions, path: str) -> FieldErrors:
    if spec.restartPolicy not in _RESTART_POLICIES:
        yield from validate_one_of(spec.restartPolicy, _RESTART_POLICIES, f"{path}.restartPolicy")
    if spec.dnsPolicy not in _DNS_POLICIES:
        yield from validate_one_of(spec.dnsPolicy, _DNS_POLICIES, f"{path}.dnsPolicy")
    if spec.nodeSelector:
        yield from validate_labels(spec.nodeSelector, f"{path}.nodeSelector")
    yield from validate_pod_security_context(spec, options, f"{path}.securityContext")
    yield from validate_shared_process_namespace(spec, path)
    if spec.affinity is not None:
        yield from validate_affinity(spec.affinity, options, f"{path}.affinity")
    if spec.dnsConfig is not None or spec.dnsPolicy == "None":
        yield from validate_dns(spec, f"{path}.dnsConfig")


def _validate_placement(spec: PodSpec, options: PodValidationOptions, path: str) -> FieldErrors:
    if spec.readinessGates:
        yield from _validate_readiness_gates(spec.readinessGates, f"{path}.readinessGates")
    if spec.schedulingGates:
        yield from _validate_scheduling_gates(spec.schedulingGates, f"{path}.schedulingGates")
    if spec.topologySpreadConstraints:
        yield from validate_topology_spread_constraints(
            spec.topologySpreadConstraints, options, f"{path}.topologySpreadConstraints"
        )
    yield from validate_host_process(spec, path)
    if spec.hostUsers is False:
        yield from validate_user_namespace(spec, options, path)
    if spec.hostnameOverride is not None:
        yield from validate_hostname_override(spec, f"{path}.hostnameOverride")


def _validate_readiness_gates(gates: list[PodReadinessGate], path: str) -> FieldErrors:
    for index, gate in enumerate(gates):
        yield from validate_qualified_name(gate.conditionType, f"{path}[{index}].conditionType")


def _validate_scheduling_gates(gates: list[PodSchedulingGate], path: str) -> FieldErrors:
    gate_names: set[str] = set()
    for index, gate in enumerate(gates):
        yield from validate_qualified_name(gate.name, f"{path}[{index}]")
        if gate.name in gate_names:
            yield FieldError.duplicate(f"{path}[{index}]", gate.name)
        gate_names.add(gate.name)


def _validate_hostname_and_account(spec: PodSpec, options: PodValidationOptions, path: str) -> FieldErrors:
    if spec.serviceAccountName:
        yield from validate_dns_subdomain(spec.serviceAccountName, f"{path}.serviceAccountName")
    if spec.nodeName:
        yield from validate_dns_subdomain(spec.nodeName, f"{path}.nodeName")
    if spec.activeDeadlineSeconds is not None and not 1 <= spec.activeDeadlineSeconds <= _MAX_INT32:
        text = names.out_of_range_message(1, _MAX_INT32)
        yield FieldError.invalid(f"{path}.activeDeadlineSeconds", spec.activeDeadlineSeconds, text)
    if spec.hostname:
        yield from validate_dns_label(spec.hostname, f"{path}.hostname")
    if spec.subdomain:
        yield from validate_dns_label(spec.subdomain, f"{path}.subdomain")
    if spec.tolerations:
        yield from validate_tolerations(spec.tolerations, f"{path}.tolerations")
    if spec.hostAliases:
        yield from validate_host_alias(spec.hostAliases, f"{path}.hostAliases")
    yield from _validate_priority_and_runtime_class(spec, options, path)


def _validate_priority_and_runtime_class(spec: PodSpec, options: PodValidationOptions, path: str) -> FieldErrors:
    if spec.priorityClassName:
        yield from validate_dns_subdomain(spec.priorityClassName, f"{path}.priorityClassName")
    if spec.runtimeClassName is not None:
        yield from validate_dns_subdomain(spec.runtimeClassName, f"{path}.runtimeClassName")
    if spec.preemptionPolicy is not None and spec.preemptionPolicy not in _PREEMPTION_POLICIES:
        yield from validate_one_of(spec.preemptionPolicy, _PREEMPTION_POLICIES, f"{path}.preemptionPolicy")
    if spec.overhead:
        yield from validate_resource_requirements(
            ResourceRequirements(limits=spec.overhead), options, f"{path}.overhead"
        )
    if spec.os is not None:
        yield from validate_os(spec, path)


def validate_pod_create(pod: Pod) -> FieldErrors:
    """Yield the errors of a pod that is to be created, except those of its metadata."""
    spec, annotations = pod.spec, pod.metadata.annotations
    yield from validate_pod(pod, NEW_POD)
    if spec.ephemeralContainers:
        yield FieldError.forbidden("spec.ephemeralContainers", "cannot be set on create")
    if spec.nodeName and spec.schedulingGates:
        yield FieldError.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")
    if annotations:
        yield from pod_annotations.validate_annotations_match_fields(annotations, spec, "spec")


def validate_pod(pod: Pod, options: PodValidationOptions) -> FieldErrors:
    """Yield the errors that creates and updates have in common."""
    meta, spec = pod.metadata, pod.spec
    yield from validate_pod_annotations(meta.annotations, spec, options, "metadata.annotations")
    yield from validate_pod_spec(spec, options, pod_name=meta.name, pod_annotations=meta.annotations)
    if not spec.serviceAccountName:
        yield from _validate_tokens_have_account(spec)
    yield from validate_images(spec.containers or (), "spec.containers")
    yield from validate_images(spec.initContainers, "spec.initContainers")


def _validate_tokens_have_account(spec: PodSpec) -> FieldErrors:
    for volume_index, volume in enumerate(spec.volumes):
        for index, source in enumerate((volume.projected.sources or ()) if volume.projected is not None else ()):
            if source.serviceAccountToken is not None:
                path = f"spec.volumes[{volume_index}].projected.sources[{index}].serviceAccountToken"
                yield FieldError.forbidden(path, "must not be specified when serviceAccountName is not set")


def validate_pod_template_spec(template: PodTemplateSpec, options: PodValidationOptions, path: str) -> FieldErrors:
    meta, spec = template.metadata, template.spec
    yield from validate_template_metadata(template, options, path)
    yield from validate_pod_spec(spec, options, f"{path}.spec")
    if meta.annotations:
        yield from pod_annotations.validate_annotations_match_fields(meta.annotations, spec, f"{path}.spec")
    if spec.ephemeralContainers:
        text = "ephemeral containers not allowed in pod template"
        yield FieldError.forbidden(f"{path}.spec.ephemeralContainers", text)


def validate_template_metadata(template: PodTemplateSpec, options: PodValidationOptions, path: str) -> FieldErrors:
    meta = template.metadata
    yield from validate_labels(meta.labels, f"{path}.labels")
    yield from metadata.validate_annotations(meta.annotations, f"{path}.annotations")
    yield from validate_pod_annotations(meta.annotations, template.spec, options, f"{path}.annotations")
