"""Validation of projected volumes: service account tokens, config maps, secrets and the downward API in one volume."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from sampan.api.field_errors import FieldError
from sampan.api.types.core_v1 import (
    ConfigMapProjection,
    DownwardAPIProjection,
    DownwardAPIVolumeFile,
    KeyToPath,
    ObjectFieldSelector,
    ProjectedVolumeSource,
    SecretProjection,
    ServiceAccountTokenProjection,
    VolumeProjection,
)
from sampan.apiserver.registry.podspec.env import (
    VOLUME_FIELDS,
    validate_object_field_selector,
    validate_resource_field_selector,
)
from sampan.apiserver.registry.podspec.volumes.defaults import FILE_MODE
from sampan.apiserver.registry.validation import (
    FieldErrors,
    validate_file_mode,
    validate_local_non_reserved_path,
    validate_required,
)

if TYPE_CHECKING:
    from sampan.apiserver.registry.podspec.validation_options import PodValidationOptions


_MIN_EXPIRATION_S, _MAX_EXPIRATION_S = 600, 2**32
_CONFLICT = "conflicting duplicate paths"


def validate_keys_to_paths(items: Sequence[KeyToPath], path: str) -> FieldErrors:
    for index, item in enumerate(items):
        yield from _validate_key_to_path(item, f"{path}[{index}]")


def _validate_key_to_path(item: KeyToPath, path: str) -> FieldErrors:
    yield from validate_required(item.key, f"{path}.key")
    yield from validate_required(item.path, f"{path}.path")
    yield from validate_local_non_reserved_path(item.path, f"{path}.path")
    yield from validate_file_mode(item.mode, f"{path}.mode")


def validate_downward_api_file(file: DownwardAPIVolumeFile, path: str) -> FieldErrors:
    yield from validate_required(file.path, f"{path}.path")
    yield from validate_local_non_reserved_path(file.path, f"{path}.path")
    if file.fieldRef is not None:
        yield from validate_object_field_selector(file.fieldRef, VOLUME_FIELDS, f"{path}.fieldRef")
        if file.resourceFieldRef is not None:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            yield FieldError.invalid(path, "resource", text)
    elif file.resourceFieldRef is not None:
        yield from validate_resource_field_selector(
            file.resourceFieldRef, f"{path}.resourceFieldRef", needs_container=True
        )
    else:
        yield FieldError.required(path, "one of fieldRef and resourceFieldRef is required")
    yield from validate_file_mode(file.mode, f"{path}.mode")


def validate_projected_volume(source: ProjectedVolumeSource, options: PodValidationOptions, path: str) -> FieldErrors:
    if is_token_source(source):
        return
    yield from validate_file_mode(source.defaultMode, f"{path}.defaultMode")
    paths: set[str] = set()
    for index, part in enumerate(source.sources or ()):
        yield from _validate_projection(part, options, paths, f"{path}.sources[{index}]", path)


def _validate_projection(
    part: VolumeProjection, options: PodValidationOptions, paths: set[str], item_path: str, path: str
) -> FieldErrors:
    """Validate one source. Cluster trust bundles and pod certificates have been dropped as disabled."""
    if part.secret is not None:
        yield from _validate_object_projection(part.secret, paths, f"{item_path}.secret", path)
    if part.configMap is not None:
        yield from _validate_object_projection(part.configMap, paths, f"{item_path}.configMap", path)
    if part.downwardAPI is not None:
        for file in part.downwardAPI.items:
            yield from validate_downward_api_file(file, f"{item_path}.downwardAPI")
            yield from _validate_unique_path(file.path, paths, file.path, path)
    if part.serviceAccountToken is not None:
        yield from _validate_token_projection(
            part.serviceAccountToken, options, f"{item_path}.serviceAccountToken", path
        )
    given_parts = (part.secret, part.configMap, part.downwardAPI, part.serviceAccountToken)
    if sum(source is not None for source in given_parts) > 1:
        yield FieldError.forbidden(item_path, "may not specify more than 1 volume type per source")


def _validate_object_projection(
    source: SecretProjection | ConfigMapProjection, paths: set[str], item_path: str, path: str
) -> FieldErrors:
    yield from validate_required(source.name, f"{item_path}.name")
    for index, item in enumerate(source.items):
        yield from _validate_key_to_path(item, f"{item_path}.items[{index}]")
        yield from _validate_unique_path(item.path, paths, source.name, path)


def _validate_unique_path(path: str, paths: set[str], shown_path: str, field_path: str) -> FieldErrors:
    if path and path in paths:
        yield FieldError.invalid(field_path, shown_path, _CONFLICT)
    paths.add(path)


def _validate_token_projection(
    token: ServiceAccountTokenProjection, options: PodValidationOptions, item_path: str, path: str
) -> FieldErrors:
    life_s = token.expirationSeconds or 0
    if life_s < _MIN_EXPIRATION_S:
        text = "may not specify a duration less than 10 minutes"
        yield FieldError.invalid(f"{item_path}.expirationSeconds", life_s, text)
    if life_s > _MAX_EXPIRATION_S:
        text = "may not specify a duration larger than 2^32 seconds"
        yield FieldError.invalid(f"{item_path}.expirationSeconds", life_s, text)
    if not token.path:
        yield FieldError.required(f"{path}.path")
    else:
        for error in validate_local_non_reserved_path(token.path, f"{path}.path"):
            if not options.far_token_paths:
                yield error


TOKEN_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_LIFE_S = 3607
_NAMESPACE = ObjectFieldSelector(apiVersion="v1", fieldPath="metadata.namespace")
_SOURCES = (
    VolumeProjection(serviceAccountToken=ServiceAccountTokenProjection(expirationSeconds=_LIFE_S, path="token")),
    VolumeProjection(
        configMap=ConfigMapProjection(name="kube-root-ca.crt", items=[KeyToPath(key="ca.crt", path="ca.crt")])
    ),
    VolumeProjection(
        downwardAPI=DownwardAPIProjection(items=[DownwardAPIVolumeFile(path="namespace", fieldRef=_NAMESPACE)])
    ),
)


def token_source() -> ProjectedVolumeSource:
    """Return the projected volume with a service account token that admission adds to most pods. Its parts are shared
    by all pods until they are stored, so they must not be modified."""
    return ProjectedVolumeSource(defaultMode=FILE_MODE, sources=[*_SOURCES])


_STANDARD = token_source()


def is_token_source(source: ProjectedVolumeSource) -> bool:
    """Whether the source is that of the standard token volume, which needs no validation."""
    return source == _STANDARD
