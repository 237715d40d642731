"""Validation of pod templates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sampan.api.faults import FieldError
from sampan.api.types.core_v1 import PodTemplateSpec
from sampan.apiserver.registry import metadata
from sampan.apiserver.registry.podspec import profiles
from sampan.apiserver.registry.podspec.annotations import validate_pod_annotations
from sampan.apiserver.registry.podspec.formats import FieldErrors, validate_labels
from sampan.apiserver.registry.podspec.spec import validate_pod_spec

if TYPE_CHECKING:
    from sampan.apiserver.registry.podspec.validation_options import PodValidationOptions


def validate_pod_template_spec(template: PodTemplateSpec, options: PodValidationOptions, at: str) -> FieldErrors:
    meta, spec = template.metadata, template.spec
    yield from validate_template_metadata(template, options, at)
    yield from validate_pod_spec(spec, options, f"{at}.spec")
    if meta.annotations:
        yield from profiles.validate_annotations_match_fields(meta.annotations, spec, f"{at}.spec")
    if spec.ephemeralContainers:
        text = "ephemeral containers not allowed in pod template"
        yield FieldError.forbidden(f"{at}.spec.ephemeralContainers", text)


def validate_template_metadata(template: PodTemplateSpec, options: PodValidationOptions, at: str) -> FieldErrors:
    meta = template.metadata
    yield from validate_labels(meta.labels, f"{at}.labels")
    yield from metadata.validate_annotations(meta.annotations, f"{at}.annotations")
    yield from validate_pod_annotations(meta.annotations, template.spec, options, f"{at}.annotations")
