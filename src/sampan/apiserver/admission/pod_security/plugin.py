"""PodSecurity: pods that violate the policy of their namespace are rejected or warned about; pod templates and
namespaces only cause warnings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sampan.api.resources.resource import Resource
from sampan.api.semantics.pods import AnyContainer
from sampan.api.types.core_v1 import Namespace, Pod, PodTemplateSpec
from sampan.apiserver.admission.framework import lookup
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation
from sampan.apiserver.admission.pod_security.policy import (
    DEFAULT,
    PREFIX,
    PRIVILEGED,
    NamespacePolicy,
    PodSecurityConfig,
    PodSecurityStandard,
    policy_of,
    read,
)
from sampan.apiserver.admission.pod_security.standards import violations
from sampan.apiserver.admission.pod_security.violations import describe_violations
from sampan.machinery import errors

_IGNORED = frozenset(["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"])
_ENFORCED, _VIOLATIONS = f"{PREFIX}enforce-policy", f"{PREFIX}audit-violations"
_EXEMPT, _ERROR = f"{PREFIX}exempt", f"{PREFIX}error"
_MAX_CHECKED_PODS = 3000
"""The maximum number of pods that are checked when the policy of a namespace changes."""
_TEMPLATES = frozenset(
    {
        *(("", "replicationcontrollers"), ("", "podtemplates")),
        *(("apps", plural) for plural in ("replicasets", "deployments", "statefulsets", "daemonsets")),
        *(("batch", "jobs"), ("batch", "cronjobs")),
    }
)


class PodSecurity:
    name = "PodSecurity"

    def __init__(self, config: PodSecurityConfig | None = None) -> None:
        self._config = config or PodSecurityConfig()

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> PodSecurity:
        return cls(read(config))

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        if operation not in ("CREATE", "UPDATE"):
            return False
        kind = (resource.group, resource.plural)
        if kind == ("", "pods"):
            return subresource not in _IGNORED
        return not subresource and (kind == ("", "namespaces") or kind in _TEMPLATES)

    async def validate(self, attributes: AdmissionAttributes) -> None:
        plural = attributes.resource.plural
        if plural == "namespaces":
            await _check_namespace(attributes, self._config)
            return
        if self._is_exempt(attributes):
            return
        policy = await self._policy(attributes)
        if policy.is_privileged:
            return
        if plural == "pods":
            self._check_pod(attributes, policy)
        elif (template := template_of(attributes.obj)) is not None and not self._has_exempt_class(attributes, template):
            _audit_and_warn(attributes, policy, template)

    def _is_exempt(self, attributes: AdmissionAttributes) -> bool:
        config = self._config
        if attributes.namespace in config.namespaces:
            attributes.annotate(_EXEMPT, "namespace")
        elif attributes.user.name in config.usernames:
            attributes.annotate(_EXEMPT, "user")
        else:
            return False
        return True

    def _has_exempt_class(self, attributes: AdmissionAttributes, pod: Pod | PodTemplateSpec) -> bool:
        is_exempt = bool(pod.spec.runtimeClassName) and pod.spec.runtimeClassName in self._config.runtime_classes
        if is_exempt:
            attributes.annotate(_EXEMPT, "runtimeClass")
        return is_exempt

    async def _policy(self, attributes: AdmissionAttributes) -> NamespacePolicy:
        store = attributes.registry.open_store_of("", "v1", "Namespace")
        namespace: Namespace | None = await lookup.find(store, "", attributes.namespace)
        if namespace is None:
            raise errors.internal_error(f'failed to lookup namespace "{attributes.namespace}"')
        policy, field_errors = policy_of(namespace.metadata.labels, self._config.default)
        if field_errors:
            attributes.annotate(_ERROR, f"Failed to parse policy: {'; '.join(map(str, field_errors))}")
        return policy

    def _check_pod(self, attributes: AdmissionAttributes, policy: NamespacePolicy) -> None:
        pod, old = attributes.obj, attributes.old
        if not isinstance(pod, Pod) or (old is not None and not is_significant(old, pod)):
            return
        if self._has_exempt_class(attributes, pod):
            return
        attributes.annotate(_ENFORCED, str(policy.enforce))
        if breaches := violations(policy.enforce, pod.metadata, pod.spec):
            raise attributes.forbidden(f'violates PodSecurity "{policy.enforce}": {describe_violations(breaches)}')
        _audit_and_warn(attributes, policy, pod)


def _audit_and_warn(attributes: AdmissionAttributes, policy: NamespacePolicy, pod: Pod | PodTemplateSpec) -> None:
    """Add the violations to the audit log and warn the client."""
    if breaches := violations(policy.audit, pod.metadata, pod.spec):
        attributes.annotate(_VIOLATIONS, f'would violate PodSecurity "{policy.audit}": {describe_violations(breaches)}')
    if breaches := violations(policy.warn, pod.metadata, pod.spec):
        attributes.warn(f'would violate PodSecurity "{policy.warn}": {describe_violations(breaches)}')


def template_of(obj: Any) -> PodTemplateSpec | None:
    """Return the pod template of a workload, if it has one."""
    if obj.kind == "CronJob":
        template = obj.spec.jobTemplate.spec.template
    else:
        template = obj.template if obj.kind == "PodTemplate" else obj.spec.template
    return template if isinstance(template, PodTemplateSpec) else None


def is_significant(old: Pod, new: Pod) -> bool:
    """Whether an update of a pod must be checked: it adds containers or changes images."""
    for before, after in (
        (old.spec.containers or [], new.spec.containers or []),
        (old.spec.initContainers, new.spec.initContainers),
    ):
        if [c.image for c in before] != [c.image for c in after]:
            return True
    return not _images(new.spec.ephemeralContainers) <= _images(old.spec.ephemeralContainers)


def _images(containers: Sequence[AnyContainer]) -> set[tuple[str, str]]:
    return {(c.name, c.image) for c in containers}


# -- namespaces ------------------------------------------------------------------------------------------------------


async def _check_namespace(attributes: AdmissionAttributes, config: PodSecurityConfig) -> None:
    namespace: Namespace = attributes.obj
    default = config.default
    policy, field_errors = policy_of(namespace.metadata.labels, default)
    old, old_errors = policy_of(attributes.old.metadata.labels, default) if attributes.old is not None else (policy, [])
    if field_errors and (attributes.old is None or field_errors != old_errors):
        raise errors.invalid("Namespace", attributes.name, field_errors)
    new, is_exempt = policy.enforce, namespace.metadata.name in config.namespaces
    if attributes.old is None:
        if is_exempt:
            _warn_of_exemption(attributes, policy, default)
        return
    if new == old.enforce or new.level == PRIVILEGED:
        return
    if new.minor == old.enforce.minor and not new.is_stricter_than(old.enforce):
        return
    if is_exempt:
        _warn_of_exemption(attributes, policy, default)
        return
    store = attributes.registry.open_store_of("", "v1", "Pod")
    for text in warnings_about(namespace.metadata.name, new, await lookup.list_in_namespace(store, attributes.name)):
        attributes.warn(text)


def _warn_of_exemption(attributes: AdmissionAttributes, policy: NamespacePolicy, default: NamespacePolicy) -> None:
    if policy in (DEFAULT, default):
        return
    labels, name = attributes.obj.metadata.labels, attributes.obj.metadata.name
    modes = [
        f"{mode}={standard}"
        for mode, standard in zip(policy._fields, policy, strict=True)
        if standard.level != PRIVILEGED and (f"{PREFIX}{mode}" in labels or f"{PREFIX}{mode}-version" in labels)
    ]
    exempt = f'namespace "{name}" is exempt from Pod Security'
    attributes.warn(f"{exempt}, and the policy ({', '.join(modes)}) will be ignored")


def warnings_about(namespace: str, standard: PodSecurityStandard, pods: Sequence[Pod]) -> list[str]:
    """Return the warnings about existing pods that violate a new policy, grouped by violation."""
    names: dict[str, list[str]] = {}
    checked = order_by_controller(pods)[:_MAX_CHECKED_PODS]
    for pod in checked:
        reasons = ", ".join(reason for reason, _ in violations(standard, pod.metadata, pod.spec))
        if reasons:
            names.setdefault(reasons, []).append(pod.metadata.name)
    texts = []
    if len(checked) < len(pods):
        part = f"the first {len(checked)} of {len(pods)} existing pods"
        texts.append(f"new PodSecurity enforce level only checked against {part}")
    if names:
        violation_text = "violate the new PodSecurity enforce level"
        texts.append(f'existing pods in namespace "{namespace}" {violation_text} "{standard}"')
    return texts + sorted(f"{_summarize_names(pod_names)}: {reasons}" for reasons, pod_names in names.items())


def order_by_controller(pods: Sequence[Pod]) -> list[Pod]:
    """Return the first pod of each controller before the others, which are similar to it."""
    first: list[Pod] = []
    remainder: list[Pod] = []
    sampled_owners = set()
    for pod in pods:
        owner = next((ref.uid for ref in pod.metadata.ownerReferences if ref.controller), None)
        (remainder if owner is not None and owner in sampled_owners else first).append(pod)
        sampled_owners.add(owner)
    return first + remainder


def _summarize_names(names: Sequence[str]) -> str:
    others = len(names) - 1
    if not others:
        return names[0]
    return f"{min(names)} (and {others} other {'pod' if others == 1 else 'pods'})"
