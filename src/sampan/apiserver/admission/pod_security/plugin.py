"""The plug-in: pods are refused, or warned about; their controllers and their namespace warned about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sampan.api.resource import Resource
from sampan.api.types.core_v1 import Namespace, Pod, PodTemplateSpec
from sampan.apiserver.admission import lookup
from sampan.apiserver.admission.chain import Attributes, Operation
from sampan.apiserver.admission.pod_security.labels import PRIVILEGED, Policy, Standard, policy_of
from sampan.apiserver.admission.pod_security.standards import violations
from sampan.apiserver.admission.pod_security.violations import AnyContainer, told
from sampan.machinery import errors

_IGNORED = frozenset(["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"])
_MOST_PODS = 3000
"""As many pods of a namespace are looked at when its standard changes."""
_TEMPLATES = frozenset(
    {
        *(("", "replicationcontrollers"), ("", "podtemplates")),
        *(("apps", plural) for plural in ("replicasets", "deployments", "statefulsets", "daemonsets")),
        *(("batch", "jobs"), ("batch", "cronjobs")),
    }
)


class PodSecurity:
    name = "PodSecurity"

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        if operation not in ("CREATE", "UPDATE"):
            return False
        kind = (resource.group, resource.plural)
        if kind == ("", "pods"):
            return subresource not in _IGNORED
        return not subresource and (kind == ("", "namespaces") or kind in _TEMPLATES)

    async def validate(self, attributes: Attributes) -> None:
        plural = attributes.resource.plural
        if plural == "namespaces":
            await _check_namespace(attributes)
            return
        policy = await _policy(attributes)
        if policy.is_privileged:
            return
        if plural == "pods":
            _check_pod(attributes, policy)
        elif (template := template_of(attributes.obj)) is not None:
            _warn(attributes, policy.warn, template)


async def _policy(attributes: Attributes) -> Policy:
    store = attributes.registry.store_of("", "v1", "Namespace")
    namespace: Namespace | None = await lookup.find(store, "", attributes.namespace)
    if namespace is None:
        raise errors.internal_error(f'failed to lookup namespace "{attributes.namespace}"')
    return policy_of(namespace.metadata.labels)[0]


def _check_pod(attributes: Attributes, policy: Policy) -> None:
    pod, old = attributes.obj, attributes.old
    if not isinstance(pod, Pod) or (old is not None and not is_significant(old, pod)):
        return
    if found := violations(policy.enforce, pod.metadata, pod.spec):
        raise attributes.refusal(f'violates PodSecurity "{policy.enforce}": {told(found)}')
    _warn(attributes, policy.warn, pod)


def _warn(attributes: Attributes, standard: Standard, pod: Pod | PodTemplateSpec) -> None:
    if found := violations(standard, pod.metadata, pod.spec):
        attributes.warn(f'would violate PodSecurity "{standard}": {told(found)}')


def template_of(obj: Any) -> PodTemplateSpec | None:
    """The pods that an object makes."""
    if obj.kind == "CronJob":
        found = obj.spec.jobTemplate.spec.template
    else:
        found = obj.template if obj.kind == "PodTemplate" else obj.spec.template
    return found if isinstance(found, PodTemplateSpec) else None


def is_significant(old: Pod, new: Pod) -> bool:
    """Whether an update changes what is checked: containers that are new, or have another image."""
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


async def _check_namespace(attributes: Attributes) -> None:
    namespace: Namespace = attributes.obj
    policy, faults = policy_of(namespace.metadata.labels)
    old, old_faults = policy_of(attributes.old.metadata.labels) if attributes.old is not None else (policy, [])
    if faults and (attributes.old is None or faults != old_faults):
        raise errors.invalid("Namespace", attributes.name, faults)
    new = policy.enforce
    if new == old.enforce or new.level == PRIVILEGED:
        return
    if new.minor == old.enforce.minor and not new.is_stricter_than(old.enforce):
        return
    store = attributes.registry.store_of("", "v1", "Pod")
    for text in warnings_about(namespace.metadata.name, new, await lookup.in_namespace(store, attributes.name)):
        attributes.warn(text)


def warnings_about(namespace: str, standard: Standard, pods: Sequence[Pod]) -> list[str]:
    """What a namespace's pods have against a new standard, told once for all that have the same."""
    names: dict[str, list[str]] = {}
    checked = by_controller(pods)[:_MOST_PODS]
    for pod in checked:
        reasons = ", ".join(reason for reason, _ in violations(standard, pod.metadata, pod.spec))
        if reasons:
            names.setdefault(reasons, []).append(pod.metadata.name)
    texts = []
    if len(checked) < len(pods):
        part = f"the first {len(checked)} of {len(pods)} existing pods"
        texts.append(f"new PodSecurity enforce level only checked against {part}")
    if names:
        what = "violate the new PodSecurity enforce level"
        texts.append(f'existing pods in namespace "{namespace}" {what} "{standard}"')
    return texts + sorted(f"{_some(found)}: {reasons}" for reasons, found in names.items())


def by_controller(pods: Sequence[Pod]) -> list[Pod]:
    """The first of each controller's pods before the others, which are like it."""
    first: list[Pod] = []
    rest: list[Pod] = []
    seen = set()
    for pod in pods:
        owner = next((ref.uid for ref in pod.metadata.ownerReferences if ref.controller), None)
        (rest if owner is not None and owner in seen else first).append(pod)
        seen.add(owner)
    return first + rest


def _some(names: Sequence[str]) -> str:
    others = len(names) - 1
    if not others:
        return names[0]
    return f"{min(names)} (and {others} other {'pod' if others == 1 else 'pods'})"
