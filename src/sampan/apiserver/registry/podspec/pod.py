"""Validation of a pod as a whole, including what applies to pods but not to pod templates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sampan.api.faults import FieldError
from sampan.api.types.core_v1 import Pod, PodSpec
from sampan.apiserver.registry.podspec import profiles
from sampan.apiserver.registry.podspec.annotations import validate_pod_annotations
from sampan.apiserver.registry.podspec.containers import validate_images
from sampan.apiserver.registry.podspec.formats import FieldErrors
from sampan.apiserver.registry.podspec.spec import validate_pod_spec
from sampan.apiserver.registry.podspec.validation_options import NEW_POD

if TYPE_CHECKING:
    from sampan.apiserver.registry.podspec.validation_options import PodValidationOptions


def validate_pod_create(pod: Pod) -> FieldErrors:
    """Yield the errors of a pod that is to be created, except those of its metadata."""
    spec, annotations = pod.spec, pod.metadata.annotations
    yield from validate_pod(pod, NEW_POD)
    if spec.ephemeralContainers:
        yield FieldError.forbidden("spec.ephemeralContainers", "cannot be set on create")
    if spec.nodeName and spec.schedulingGates:
        yield FieldError.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")
    if annotations:
        yield from profiles.validate_annotations_match_fields(annotations, spec, "spec")


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
