"""Validation of pod updates: which fields of a pod may change."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.go_compat.internal_view import difference, encode_error_value
from sampan.api.semantics.pod_references import is_mirror_pod
from sampan.api.types.core_v1 import (
    Affinity,
    Container,
    NodeAffinity,
    NodeSelectorTerm,
    Pod,
    PodSchedulingGate,
    PodSpec,
    Toleration,
)
from sampan.apiserver.registry.podspec import pod_annotations
from sampan.apiserver.registry.podspec.containers import validate_image
from sampan.apiserver.registry.podspec.node_selection import validate_tolerations
from sampan.apiserver.registry.podspec.spec import validate_pod
from sampan.apiserver.registry.validation import FieldErrors

if TYPE_CHECKING:
    from sampan.apiserver.registry.podspec.validation_options import PodValidationOptions

_MAX_INT32 = 2**31 - 1
_CHANGEABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def validate_pod_update(new: Pod, old: Pod, options: PodValidationOptions) -> FieldErrors:
    """Yield all errors of an update of the pod except those of its metadata. Some errors end the validation early."""
    yield from validate_pod(new, options)
    yield from validate_annotations_of_update(new, old, options)
    for part in ("containers", "initContainers"):
        now, before = getattr(new.spec, part) or (), getattr(old.spec, part) or ()
        if len(now) != len(before):
            yield FieldError.forbidden(f"spec.{part}", "pod updates may not add or remove containers")
            return
        yield from _validate_image_changes(now, f"spec.{part}")
    deadline = list(_validate_active_deadline(new.spec.activeDeadlineSeconds, old.spec.activeDeadlineSeconds))
    yield from deadline
    if deadline and new.spec.activeDeadlineSeconds is not None:
        return
    yield from _validate_tolerations(new.spec.tolerations, old.spec.tolerations)
    yield from _validate_scheduling_gates(new.spec.schedulingGates, old.spec.schedulingGates)
    if new.spec != old.spec:
        yield from _validate_immutable_rest(new.spec, old.spec)


def validate_annotations_of_update(new: Pod, old: Pod, options: PodValidationOptions) -> FieldErrors:
    now, before = new.metadata.annotations, old.metadata.annotations
    if now != before:
        yield from pod_annotations.validate_pod_annotation_update(now, before, "metadata.annotations")
    yield from pod_annotations.validate_pod_annotations(now, new.spec, options, "metadata.annotations")


def _validate_image_changes(containers: Sequence[Container], path: str) -> FieldErrors:
    for index, container in enumerate(containers):
        if not container.image:
            yield FieldError.required(f"{path}[{index}].image")
        yield from validate_image(container, f"{path}[{index}]")


def _validate_active_deadline(new: int | None, old: int | None) -> FieldErrors:
    """Yield an error unless the deadline is unchanged, newly set or lowered."""
    path = "spec.activeDeadlineSeconds"
    if new is None:
        if old is not None:
            yield FieldError.invalid(path, None, "must not update from a positive integer to nil value")
    elif not 0 <= new <= _MAX_INT32:
        yield FieldError.invalid(path, new, names.out_of_range_message(0, _MAX_INT32))
    elif old is not None and old < new:
        yield FieldError.invalid(path, new, "must be less than or equal to previous value")


def _validate_tolerations(new: Sequence[Toleration], old: Sequence[Toleration]) -> FieldErrors:
    """Yield an error if tolerations are removed or changed, except for their tolerationSeconds."""
    if new == old:
        return
    new_keys = {_key_without_time(toleration) for toleration in new}
    if any(_key_without_time(toleration) not in new_keys for toleration in old):
        text = "existing toleration can not be modified except its tolerationSeconds"
        yield FieldError.forbidden("spec.tolerations", text)
        return
    yield from validate_tolerations(new, "spec.tolerations")


def _key_without_time(toleration: Toleration) -> tuple[str, str, str, str]:
    return toleration.key, toleration.operator, toleration.value, toleration.effect


def _validate_scheduling_gates(new: Sequence[PodSchedulingGate], old: Sequence[PodSchedulingGate]) -> FieldErrors:
    old_gates, places = {gate.name for gate in old}, {gate.name: index for index, gate in enumerate(new)}
    for name, index in places.items():
        if name not in old_gates:
            text = f"only deletion is allowed, but found new scheduling gate '{name}'"
            yield FieldError.forbidden(f"spec.schedulingGates[{index}].name", text)


def _validate_immutable_rest(new: PodSpec, old: PodSpec) -> FieldErrors:
    """Yield an error if the specs differ in any other field than those that may change."""
    masked = _with_old_images(new, old)
    masked.activeDeadlineSeconds = old.activeDeadlineSeconds
    masked.schedulingGates = old.schedulingGates
    masked.tolerations = old.tolerations
    if (old.terminationGracePeriodSeconds or 0) < 0 and masked.terminationGracePeriodSeconds == 1:
        masked.terminationGracePeriodSeconds = old.terminationGracePeriodSeconds
    if old.schedulingGates:
        yield from _validate_gated_pod(masked, old)
    if masked != old:
        text = f"pod updates may not change fields other than {_CHANGEABLE}\n{difference(old, masked)}"
        yield FieldError.forbidden("spec", text)


def _with_old_images(new: PodSpec, old: PodSpec) -> PodSpec:
    spec = copy(new)
    if new.containers:
        spec.containers = _restore_images(new.containers, old.containers or [])
    spec.initContainers = _restore_images(new.initContainers, old.initContainers)
    return spec


def _restore_images(new: list[Container], old: list[Container]) -> list[Container]:
    copies = [copy(container) for container in new]
    for container, before in zip(copies, old, strict=True):
        container.image = before.image
    return copies


# -- a pod with scheduling gates may get stricter node constraints -----------------------------------------------------


def _validate_gated_pod(new_spec: PodSpec, old: PodSpec) -> FieldErrors:
    """Yield errors unless nodeSelector and required node affinity only get stricter.

    Changes that are allowed or reported here are undone in `new_spec`, so that the caller's comparison of the specs
    ignores them."""
    if new_spec.nodeSelector != old.nodeSelector:
        if any(new_spec.nodeSelector.get(key) != value for key, value in old.nodeSelector.items()):
            text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            yield FieldError.invalid("spec.nodeSelector", new_spec.nodeSelector, text)
        new_spec.nodeSelector = old.nodeSelector
    before = old.affinity.nodeAffinity if old.affinity is not None else None
    now = new_spec.affinity.nodeAffinity if new_spec.affinity is not None else None
    if now != before:
        yield from _validate_node_affinity(now, before, "spec.affinity.nodeAffinity")
        new_spec.affinity = _with_node_affinity(new_spec.affinity, old.affinity, before)


def _with_node_affinity(new: Affinity | None, old: Affinity | None, node: NodeAffinity | None) -> Affinity | None:
    if new is None:
        return Affinity(nodeAffinity=node)
    if old is None and new.podAffinity is None and new.podAntiAffinity is None:
        return None
    spec = copy(new)
    spec.nodeAffinity = node
    return spec


def _validate_node_affinity(new: NodeAffinity | None, old: NodeAffinity | None, path: str) -> FieldErrors:
    before, now = _required_terms(old), _required_terms(new)
    if not before:
        return
    path = f"{path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    if len(before) != len(now):
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        yield FieldError.invalid(path, encode_error_value(now), text)
        return
    for index, (term, old_term) in enumerate(zip(now, before, strict=True)):
        if not _only_adds(term, old_term):
            text = "only additions are allowed (no mutations or deletions)"
            yield FieldError.invalid(f"{path}[{index}]", encode_error_value(term), text)


def _required_terms(affinity: NodeAffinity | None) -> list[NodeSelectorTerm]:
    required = affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity is not None else None
    return (required.nodeSelectorTerms if required is not None else None) or []


def _only_adds(new: NodeSelectorTerm, old: NodeSelectorTerm) -> bool:
    if not old.matchExpressions and not old.matchFields:
        return new == old
    return (
        new.matchExpressions[: len(old.matchExpressions)] == old.matchExpressions
        and new.matchFields[: len(old.matchFields)] == old.matchFields
    )


# -- ephemeral containers ------------------------------------------------------------------------------------------


def validate_ephemeral_container_update(new: Pod, old: Pod, options: PodValidationOptions) -> FieldErrors:
    """Yield an error for any change of ephemeral containers but additions."""
    if is_mirror_pod(old):
        yield FieldError.forbidden("[]", "static pods do not support ephemeral containers")
        return
    yield from validate_pod(new, options)
    yield from validate_annotations_of_update(new, old, options)
    path = "spec.ephemeralContainers"
    now = {container.name: container for container in new.spec.ephemeralContainers}
    for container in old.spec.ephemeralContainers:
        current = now.get(container.name)
        if current is None:
            yield FieldError.forbidden(path, f'existing ephemeral containers "{container.name}" may not be removed\n')
        elif current != container:
            diff = difference(container, current)
            yield FieldError.forbidden(
                path, f'existing ephemeral containers "{container.name}" may not be changed\n{diff}'
            )
