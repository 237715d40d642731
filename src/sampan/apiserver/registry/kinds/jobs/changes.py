"""Validation of job updates: the pod template is mutable only while the job is suspended."""

from typing import Any

import msgspec

from sampan.api.faults import FieldError
from sampan.api.semantics.conditions import is_true
from sampan.api.types.batch_v1 import Job, JobSpec
from sampan.api.types.core_v1 import Affinity, Container, PodSpec
from sampan.apiserver.registry.kinds.jobs.spec import INDEXED
from sampan.apiserver.registry.podspec.formats import FieldErrors
from sampan.apiserver.registry.podspec.internal_view import shown
from sampan.apiserver.registry.workloads.selection import IMMUTABLE, validate_immutable_selector

_PLACEMENT = ("nodeSelector", "tolerations", "schedulingGates")
"""The scheduling fields of a pod template that are mutable; node affinity is handled apart."""


def validate_job_spec_update(spec: JobSpec, old: Job) -> FieldErrors:
    yield from _validate_completions(spec, old.spec)
    yield from validate_immutable_selector(spec.selector, old.spec.selector, "spec.selector")
    yield from _validate_template_update(spec, old)
    for field in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"):
        yield from _validate_immutable(getattr(spec, field), getattr(old.spec, field), f"spec.{field}")


def _validate_immutable(value: Any, old: Any, at: str) -> FieldErrors:
    if value != old:
        yield FieldError.invalid(at, shown(value) if isinstance(value, msgspec.Struct) else value, IMMUTABLE)


def _validate_completions(spec: JobSpec, old: JobSpec) -> FieldErrors:
    """Yield an error if completions changed, unless an indexed job is scaled together with parallelism."""
    at = "spec.completions"
    if spec.completionMode != INDEXED:
        yield from _validate_immutable(spec.completions, old.completions, at)
    elif spec.completions is not None and spec.completions not in (old.completions, spec.parallelism):
        text = "can only be modified in tandem with spec.parallelism"
        yield FieldError.invalid(at, spec.completions, text)


def _validate_template_update(spec: JobSpec, old: Job) -> FieldErrors:
    template, before = spec.template, old.spec.template
    if template == before:
        return
    if not _is_at_rest(old):
        yield FieldError.invalid("spec.template", shown(template), IMMUTABLE)
    elif template.spec != _with_changes(before.spec, template.spec):
        yield FieldError.invalid("spec.template.spec", shown(template.spec), IMMUTABLE)


def _is_at_rest(job: Job) -> bool:
    """Whether the job is suspended and has no active pods."""
    return job.spec.suspend is True and is_true(job.status.conditions, "Suspended") and job.status.active == 0


def _with_changes(old: PodSpec, new: PodSpec) -> PodSpec:
    """Return the old spec with all mutable fields of the new one: scheduling directives and resources."""
    return msgspec.structs.replace(
        old,
        affinity=_affinity(old.affinity, new.affinity),
        containers=_with_resources(old.containers or [], new.containers or []),
        initContainers=_with_resources(old.initContainers, new.initContainers),
        **{field: getattr(new, field) for field in _PLACEMENT},
    )


def _affinity(old: Affinity | None, new: Affinity | None) -> Affinity | None:
    node_affinity = new.nodeAffinity if new is not None else None
    affinity = msgspec.structs.replace(old or Affinity(), nodeAffinity=node_affinity)
    return None if new is None and affinity == Affinity() else affinity


def _with_resources(old: list[Container], new: list[Container]) -> list[Container]:
    if len(old) != len(new):
        return old
    return [
        msgspec.structs.replace(before, resources=after.resources) if before.name == after.name else before
        for before, after in zip(old, new, strict=True)
    ]
