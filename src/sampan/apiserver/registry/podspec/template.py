"""Validation of pod templates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sampan.api.faults import FieldError
from sampan.api.types.core_v1 import PodTemplateSpec
from sampan.apiserver.registry import metadata
from sampan.apiserver.registry.podspec import profiles
from sampan.apiserver.registry.podspec.annotations import annotation_faults
from sampan.apiserver.registry.podspec.formats import Faults, labels
from sampan.apiserver.registry.podspec.spec import spec_faults

if TYPE_CHECKING:
    from sampan.apiserver.registry.podspec.leniency import Leniency


def template_faults(template: PodTemplateSpec, lenient: Leniency, at: str) -> Faults:
    meta, spec = template.metadata, template.spec
    yield from template_metadata_faults(template, lenient, at)
    yield from spec_faults(spec, lenient, f"{at}.spec")
    if meta.annotations:
        yield from profiles.agreement_faults(meta.annotations, spec, f"{at}.spec")
    if spec.ephemeralContainers:
        text = "ephemeral containers not allowed in pod template"
        yield FieldError.forbidden(f"{at}.spec.ephemeralContainers", text)


def template_metadata_faults(template: PodTemplateSpec, lenient: Leniency, at: str) -> Faults:
    meta = template.metadata
    yield from labels(meta.labels, f"{at}.labels")
    yield from metadata.annotation_faults(meta.annotations, f"{at}.annotations")
    yield from annotation_faults(meta.annotations, template.spec, lenient, f"{at}.annotations")
