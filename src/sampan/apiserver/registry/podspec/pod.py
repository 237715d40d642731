"""Validation of a pod as a whole, including what applies to pods but not to pod templates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sampan.api.faults import FieldError
from sampan.api.types.core_v1 import Pod, PodSpec
from sampan.apiserver.registry.podspec import profiles
from sampan.apiserver.registry.podspec.annotations import annotation_faults
from sampan.apiserver.registry.podspec.containers import images_faults
from sampan.apiserver.registry.podspec.formats import Faults
from sampan.apiserver.registry.podspec.leniency import NEW_POD
from sampan.apiserver.registry.podspec.spec import spec_faults

if TYPE_CHECKING:
    from sampan.apiserver.registry.podspec.leniency import Leniency


def new_pod_faults(pod: Pod) -> Faults:
    """Yield the errors of a pod that is to be created, except those of its metadata."""
    spec, annotations = pod.spec, pod.metadata.annotations
    yield from pod_faults(pod, NEW_POD)
    if spec.ephemeralContainers:
        yield FieldError.forbidden("spec.ephemeralContainers", "cannot be set on create")
    if spec.nodeName and spec.schedulingGates:
        yield FieldError.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")
    if annotations:
        yield from profiles.agreement_faults(annotations, spec, "spec")


def pod_faults(pod: Pod, lenient: Leniency) -> Faults:
    """Yield the errors that creates and updates have in common."""
    meta, spec = pod.metadata, pod.spec
    yield from annotation_faults(meta.annotations, spec, lenient, "metadata.annotations")
    yield from spec_faults(spec, lenient, pod_name=meta.name, pod_annotations=meta.annotations)
    if not spec.serviceAccountName:
        yield from _tokens_without_account(spec)
    yield from images_faults(spec.containers or (), "spec.containers")
    yield from images_faults(spec.initContainers, "spec.initContainers")


def _tokens_without_account(spec: PodSpec) -> Faults:
    for volume_index, volume in enumerate(spec.volumes):
        for index, source in enumerate((volume.projected.sources or ()) if volume.projected is not None else ()):
            if source.serviceAccountToken is not None:
                path = f"spec.volumes[{volume_index}].projected.sources[{index}].serviceAccountToken"
                yield FieldError.forbidden(path, "must not be specified when serviceAccountName is not set")
