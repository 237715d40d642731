"""Validation of projected volumes: service account tokens, config maps, secrets, the downward API, cluster trust
bundles and pod certificates in one volume."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.go_compat.internal_view import encode_error_value
from sampan.api.selectors.label_selector import selector_errors
from sampan.api.types.core_v1 import (
    ClusterTrustBundleProjection,
    ConfigMapProjection,
    DownwardAPIProjection,
    DownwardAPIVolumeFile,
    KeyToPath,
    ObjectFieldSelector,
    PodCertificateProjection,
    ProjectedVolumeSource,
    SecretProjection,
    ServiceAccountTokenProjection,
    VolumeProjection,
)
from sampan.apiserver.registry.certificate_rules import (
    find_bundle_name_errors,
    is_kubernetes_signer,
    validate_signer_name,
)
from sampan.apiserver.registry.metadata import validate_annotations_size
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
    validate_user_or_group_id,
)

if TYPE_CHECKING:
    from sampan.apiserver.registry.podspec.validation_options import PodValidationOptions


_MIN_EXPIRATION_S, _MAX_EXPIRATION_S = 600, 2**32
_MIN_CERTIFICATE_S = 3600
_MAX_CERTIFICATE_S, _MAX_KUBERNETES_CERTIFICATE_S = 91 * 86400, 86400
"""The longest life of a certificate, and that of one whose signer belongs to Kubernetes."""
_KEY_TYPES = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
_CONFLICT = "conflicting duplicate paths"


def validate_keys_to_paths(items: Sequence[KeyToPath], path: str) -> FieldErrors:
    for index, item in enumerate(items):
        yield from _validate_key_to_path(item, f"{path}[{index}]")


def _validate_key_to_path(item: KeyToPath, path: str) -> FieldErrors:
    yield from validate_required(item.key, f"{path}.key")
    yield from validate_required(item.path, f"{path}.path")
    yield from validate_local_non_reserved_path(item.path, f"{path}.path")
    yield from validate_file_mode(item.mode, f"{path}.mode")
    yield from validate_user_or_group_id(item.user, f"{path}.user")


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
    yield from validate_user_or_group_id(file.user, f"{path}.user")


def validate_projected_volume(source: ProjectedVolumeSource, options: PodValidationOptions, path: str) -> FieldErrors:
    if is_token_source(source):
        return
    yield from validate_file_mode(source.defaultMode, f"{path}.defaultMode")
    yield from validate_user_or_group_id(source.defaultUser, f"{path}.defaultUser")
    paths: set[str] = set()
    for index, part in enumerate(source.sources or ()):
        yield from _validate_projection(part, options, paths, f"{path}.sources[{index}]", path)


def _validate_projection(
    part: VolumeProjection, options: PodValidationOptions, paths: set[str], item_path: str, path: str
) -> FieldErrors:
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
    if part.clusterTrustBundle is not None:
        yield from _validate_bundle_projection(part.clusterTrustBundle, paths, f"{item_path}.clusterTrustBundle", path)
    if part.podCertificate is not None:
        yield from _validate_certificate_projection(part.podCertificate, paths, f"{item_path}.podCertificate", path)
    given_parts = (
        *(part.secret, part.configMap, part.downwardAPI),
        *(part.serviceAccountToken, part.clusterTrustBundle, part.podCertificate),
    )
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
    yield from validate_user_or_group_id(token.user, f"{item_path}.user")


def _validate_bundle_projection(
    source: ClusterTrustBundleProjection, paths: set[str], item_path: str, path: str
) -> FieldErrors:
    if source.name is not None and source.signerName is not None:
        yield FieldError.invalid(item_path, encode_error_value(source), "only one of name and signerName may be used")
    elif source.name is not None:
        yield from _validate_bundle_name(source.name, f"{item_path}.name")
        if source.labelSelector is not None:
            text = "labelSelector must be unset if name is specified"
            yield FieldError.invalid(f"{item_path}.labelSelector", source.labelSelector, text)
    elif source.signerName is not None:
        if not source.signerName:
            yield FieldError.required(f"{item_path}.signerName", "must be a valid signer name")
        yield from validate_signer_name(source.signerName, f"{item_path}.signerName")
        yield from selector_errors(source.labelSelector, f"{item_path}.labelSelector")
    else:
        yield FieldError.required(item_path, "either name or signerName must be specified")
    if not source.path:
        yield FieldError.required(f"{item_path}.path")
    yield from validate_user_or_group_id(source.user, f"{item_path}.user")
    yield from validate_local_non_reserved_path(source.path, f"{item_path}.path")
    if source.path in paths:
        yield FieldError.invalid(path, source.path, _CONFLICT)
    paths.add(source.path)


def _validate_bundle_name(name: str, path: str) -> FieldErrors:
    if not name:
        yield FieldError.required(path, "must be a valid object name")
    signer = name.rpartition(":")[0].replace(":", "/")
    for text in find_bundle_name_errors(name, signer):
        yield FieldError.invalid(path, name, f"not a valid clustertrustbundlename: {text}")


def _validate_certificate_projection(
    source: PodCertificateProjection, paths: set[str], item_path: str, path: str
) -> FieldErrors:
    yield from validate_signer_name(source.signerName, f"{item_path}.signerName")
    yield from validate_user_annotations(source.userAnnotations, f"{item_path}.userAnnotations")
    yield from validate_user_or_group_id(source.user, f"{item_path}.user")
    if source.keyType not in _KEY_TYPES:
        yield FieldError.not_supported(f"{item_path}.keyType", source.keyType, _KEY_TYPES)
    life_s = source.maxExpirationSeconds
    if life_s is not None:
        max_s = _MAX_KUBERNETES_CERTIFICATE_S if is_kubernetes_signer(source.signerName) else _MAX_CERTIFICATE_S
        for is_wrong, text in (
            (life_s < _MIN_CERTIFICATE_S, f">= {_MIN_CERTIFICATE_S}"),
            (life_s > max_s, f"<= {max_s}"),
        ):
            if is_wrong:
                detail = f"if provided, maxExpirationSeconds must be {text}"
                yield FieldError.invalid(f"{item_path}.maxExpirationSeconds", life_s, detail)
    files = {
        "credentialBundlePath": source.credentialBundlePath,
        "keyPath": source.keyPath,
        "certificateChainPath": source.certificateChainPath,
    }
    for name, file in files.items():
        if file:
            yield from validate_local_non_reserved_path(file, f"{item_path}.{name}")
            yield from _validate_unique_path(file, paths, file, path)
    if not any(files.values()):
        text = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"
        yield FieldError.required(item_path, text)


def validate_user_annotations(annotations: Mapping[str, str], path: str) -> FieldErrors:
    for key in sorted(annotations):
        lowered = key.lower()
        messages = names.qualified_name(lowered) if lowered else []
        if not lowered:
            yield FieldError.required(path)
        elif not messages and "/" not in lowered:
            messages = ['must be a domain-prefixed key (such as "acme.io/foo")']
        yield from (FieldError.invalid(path, lowered, text) for text in messages)
    yield from validate_annotations_size(annotations, path)


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
