"""The strategies of pods and of the subresources that show the pod itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy, deepcopy

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.semantics.pod_resources import qos_class
from sampan.api.semantics.pods import set_pod_condition
from sampan.api.types.core_v1 import Pod, PodStatus
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.apiserver.registry.kinds.pods.columns import COLUMNS, row_conditions
from sampan.apiserver.registry.podspec import pod_annotations, pod_resize, pod_status, pod_update
from sampan.apiserver.registry.podspec.affinity import join_label_keys
from sampan.apiserver.registry.podspec.defaults import default_pod, default_pod_resources
from sampan.apiserver.registry.podspec.spec import validate_pod_create
from sampan.apiserver.registry.podspec.validation_options import PodValidationOptions
from sampan.apiserver.registry.podspec.warnings import address_warnings, warnings_for
from sampan.apiserver.registry.strategy import Context, Strategy
from sampan.machinery.apply import ExcludedFieldsFilter, IncludedFieldsFilter

_CLAIM_STATUSES = ("resourceClaimStatuses", "extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses")
"""Fields that a status update keeps if it leaves them out: old clients do not know them."""
_TERMINAL_PHASES = ("Failed", "Succeeded")


class PodStrategy(Strategy):
    return_deleted_object = True
    counts_generation = True
    columns = COLUMNS

    def default(self, obj: Pod) -> None:
        default_pod(obj)

    def prepare_for_create(self, ctx: Context, obj: Pod) -> None:
        spec = obj.spec
        obj.status = PodStatus(phase="Pending")
        if spec.resources is not None:
            default_pod_resources(spec)
        obj.status.qosClass = qos_class(spec)
        if spec.schedulingGates:
            text = "Scheduling is blocked due to non-empty scheduling gates"
            set_pod_condition(obj.status, "PodScheduled", "False", now=ctx.now, reason="SchedulingGated", message=text)
        if spec.affinity is not None or spec.topologySpreadConstraints:
            join_label_keys(obj)
        if obj.metadata.annotations:
            for text in pod_annotations.fields_from_annotations(obj):
                ctx.warn(text)

    def validate_create(self, ctx: Context, obj: Pod) -> Iterable[FieldError]:
        return validate_pod_create(obj)

    def prepare_for_update(self, ctx: Context, obj: Pod, old: Pod) -> None:
        obj.status = old.status
        _keep_pod_resources(obj, old)

    def validate_update(self, ctx: Context, obj: Pod, old: Pod) -> Iterable[FieldError]:
        return pod_update.validate_pod_update(obj, old, _update_options(old))

    def warnings(self, ctx: Context, obj: Pod, old: Pod | None) -> Iterator[str]:
        """Yield warnings about new pods only: most updates are made by components, which ignore warnings."""
        if old is not None:
            return
        if messages := names.dns1123_label(obj.metadata.name):
            text = "this is used in the Pod's hostname, which can result in surprising behavior"
            yield f"metadata.name: {text}; a DNS label is recommended: [{' '.join(messages)}]"
        yield from warnings_for(obj.spec, obj.metadata)

    def row_conditions(self, obj: Pod) -> Sequence[Mapping[str, str]]:
        return row_conditions(obj)

    def grace_s(self, ctx: Context, obj: Pod, requested_s: int | None) -> int | None:
        if not obj.spec.nodeName or obj.status.phase in _TERMINAL_PHASES:
            return 0
        period = requested_s if requested_s is not None else obj.spec.terminationGracePeriodSeconds or 0
        return 1 if period < 0 else period


def _update_options(old: Pod) -> PodValidationOptions:
    return PodValidationOptions(old.spec, old.metadata.annotations, is_pod=True)


class PodStatusStrategy(PodStrategy):
    """The status subresource; labels, annotations and finalizers are mutable with the status."""

    counts_generation = False
    reset_fields = ExcludedFieldsFilter("spec", "metadata.deletionTimestamp", "metadata.ownerReferences")

    def prepare_for_update(self, ctx: Context, obj: Pod, old: Pod) -> None:
        obj.spec = old.spec
        obj.metadata.ownerReferences = old.metadata.ownerReferences
        status = obj.status
        status.qosClass = status.qosClass or old.status.qosClass
        status.observedGeneration = status.observedGeneration or old.status.observedGeneration
        _keep_observed_generations(status, old.status)
        for field in _CLAIM_STATUSES:
            setattr(status, field, getattr(status, field) or getattr(old.status, field))

    def validate_update(self, ctx: Context, obj: Pod, old: Pod) -> Iterable[FieldError]:
        return pod_status.validate_pod_status_update(obj, old, _update_options(old))

    def warnings(self, ctx: Context, obj: Pod, old: Pod | None) -> Iterator[str]:
        for index, address in enumerate(obj.status.podIPs):
            yield from address_warnings(address.ip, f"status.podIPs[{index}].ip")
        for index, host in enumerate(obj.status.hostIPs):
            yield from address_warnings(host.ip, f"status.hostIPs[{index}].ip")


def _keep_pod_resources(new: Pod, old: Pod) -> None:
    """Keep pod-level resources in an update without any, which may come from a client that does not know them."""
    if new.spec.resources is None:
        new.spec.resources = deepcopy(old.spec.resources)


def _keep_metadata(new: ObjectMeta, old: ObjectMeta) -> None:
    for field in ("labels", "annotations", "finalizers", "ownerReferences"):
        setattr(new, field, getattr(old, field))


def _keep_observed_generations(new: PodStatus, old: PodStatus) -> None:
    """Keep the observedGeneration of conditions that are sent without one."""
    generations: dict[str, deque[int]] = {}
    for condition in old.conditions:
        generations.setdefault(condition.type, deque()).append(condition.observedGeneration)
    for condition in new.conditions:
        before = generations.get(condition.type)
        generation = before.popleft() if before else 0
        condition.observedGeneration = condition.observedGeneration or generation


class EphemeralContainersStrategy(PodStrategy):
    """The ephemeralcontainers subresource, which changes only the ephemeral containers."""

    reset_fields = IncludedFieldsFilter("spec.ephemeralContainers")

    def prepare_for_update(self, ctx: Context, obj: Pod, old: Pod) -> None:
        ephemeral_containers = obj.spec.ephemeralContainers
        obj.spec, obj.status = copy(old.spec), old.status
        obj.spec.ephemeralContainers = ephemeral_containers
        _keep_metadata(obj.metadata, old.metadata)

    def validate_update(self, ctx: Context, obj: Pod, old: Pod) -> Iterable[FieldError]:
        return pod_update.validate_ephemeral_container_update(obj, old, _update_options(old))


class ResizeStrategy(PodStrategy):
    """The resize subresource, which changes only the resources and resize policies."""

    reset_fields = IncludedFieldsFilter(
        "spec.containers.*.resources",
        "spec.containers.*.resizePolicy",
        "spec.initContainers.*.resources",
        "spec.initContainers.*.resizePolicy",
    )

    def prepare_for_update(self, ctx: Context, obj: Pod, old: Pod) -> None:
        if pod_resize.keep_all_but_resources(obj, old):
            _keep_metadata(obj.metadata, old.metadata)
        _keep_pod_resources(obj, old)
        default_pod_resources(obj.spec)

    def validate_update(self, ctx: Context, obj: Pod, old: Pod) -> Iterable[FieldError]:
        return pod_resize.validate_pod_resize(obj, old, _update_options(old))
