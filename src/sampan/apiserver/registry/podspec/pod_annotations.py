"""Annotations of a pod that have a meaning for the server: mirror pods, deletion cost, and the deprecated annotations
of seccomp and AppArmor profiles, together with the fields that replace them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sampan.api.field_errors import FieldError
from sampan.api.go_compat import gotext
from sampan.api.go_compat.internal_view import encode_error_value
from sampan.api.semantics.pod_references import CONFIG_MIRROR
from sampan.api.semantics.pods import containers_by_field
from sampan.api.types.core_v1 import AppArmorProfile, Pod, PodSpec, SeccompProfile, SecurityContext
from sampan.apiserver.registry.validation import FieldErrors, validate_local_descending_path

if TYPE_CHECKING:
    from sampan.apiserver.registry.podspec.validation_options import PodValidationOptions

_TYPES = ("Localhost", "RuntimeDefault", "Unconfined")
_LOCAL = "localhost/"
SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
_MAX_PROFILE_NAME_BYTES = 4095


def validate_seccomp(profile: SeccompProfile, field_path: str) -> FieldErrors:
    if not profile.type:
        yield FieldError.required(f"{field_path}.type", "type is required when seccompProfile is set")
    elif profile.type not in _TYPES:
        yield FieldError.not_supported(f"{field_path}.type", profile.type, _TYPES)
    path = profile.localhostProfile
    if profile.type == "Localhost":
        if path is None:
            yield FieldError.required(f"{field_path}.localhostProfile", "must be set when seccomp type is Localhost")
        else:
            yield from validate_local_descending_path(path, f"{field_path}.localhostProfile")
    elif path is not None:
        text = "can only be set when seccomp type is Localhost"
        yield FieldError.invalid(f"{field_path}.localhostProfile", encode_error_value(profile), text)


def validate_app_armor(profile: AppArmorProfile, path: str) -> FieldErrors:
    if profile.type == "Localhost":
        yield from _validate_localhost_app_armor(profile.localhostProfile, f"{path}.localhostProfile")
    elif profile.type in _TYPES:
        if profile.localhostProfile is not None:
            text = "can only be set when AppArmor type is Localhost"
            yield FieldError.invalid(f"{path}.localhostProfile", profile.localhostProfile, text)
    elif not profile.type:
        yield FieldError.required(f"{path}.type", "type is required when appArmorProfile is set")
    else:
        yield FieldError.not_supported(f"{path}.type", profile.type, _TYPES)


def _validate_localhost_app_armor(name: str | None, path: str) -> FieldErrors:
    if not name:
        yield FieldError.required(path, "must be set when AppArmor type is Localhost")
        return
    if name != name.strip():
        yield FieldError.invalid(path, name, "must not be padded with whitespace")
    if len(name.encode()) > _MAX_PROFILE_NAME_BYTES:
        yield FieldError.too_long(path, _MAX_PROFILE_NAME_BYTES)


# -- annotations -----------------------------------------------------------------------------------------------------


def validate_profile_annotations(annotations: Mapping[str, str], spec: PodSpec, path: str) -> FieldErrors:
    pod = annotations.get(SECCOMP_POD)
    if pod is not None:
        yield from _validate_seccomp_name(pod, f"{path}.{SECCOMP_POD}")
    for key in sorted(annotations):
        if key.startswith(SECCOMP_CONTAINER):
            yield from _validate_seccomp_name(annotations[key], f"{path}.{key}")
    for key in sorted(annotations):
        if key.startswith(APPARMOR):
            yield from _validate_app_armor_annotation(key, annotations[key], spec, f"{path}[{key}]")


def _validate_seccomp_name(profile: str, path: str) -> FieldErrors:
    if profile in ("runtime/default", "docker/default", "unconfined"):
        return
    if profile.startswith(_LOCAL):
        yield from validate_local_descending_path(profile.removeprefix(_LOCAL), path)
    else:
        yield FieldError.invalid(path, profile, "must be a valid seccomp profile")


def _validate_app_armor_annotation(key: str, profile: str, spec: PodSpec, path: str) -> FieldErrors:
    name = key.removeprefix(APPARMOR)
    if all(container.name != name for _, container, _ in containers_by_field(spec)):
        yield FieldError.invalid(path, name, "container not found")
    if profile not in ("", "runtime/default", "unconfined") and not profile.startswith(_LOCAL):
        yield FieldError.invalid(path, profile, f"invalid AppArmor profile name: {gotext.quote(profile)}")


def validate_annotations_match_fields(annotations: Mapping[str, str], spec: PodSpec, path: str) -> FieldErrors:
    """Yield errors if a profile's field and annotation are both set and differ."""
    yield from _validate_seccomp_annotations_match(annotations, spec, path)
    if spec.os is None or spec.os.name != "windows":
        yield from _validate_app_armor_annotations_match(annotations, spec, path)


def _validate_seccomp_annotations_match(annotations: Mapping[str, str], spec: PodSpec, field_path: str) -> FieldErrors:
    context = spec.securityContext
    if context is not None and context.seccompProfile is not None and SECCOMP_POD in annotations:
        path = f"{field_path}.securityContext.seccompProfile"
        yield from _validate_annotation_matches_field(annotations[SECCOMP_POD], context.seccompProfile, path, "seccomp")
    for part, container, index in containers_by_field(spec):
        profile = container.securityContext.seccompProfile if container.securityContext is not None else None
        annotation = annotations.get(SECCOMP_CONTAINER + container.name)
        if profile is not None and annotation is not None:
            path = f"{field_path}.{part}[{index}].securityContext.seccompProfile"
            yield from _validate_annotation_matches_field(annotation, profile, path, "seccomp")


def _validate_app_armor_annotations_match(
    annotations: Mapping[str, str], spec: PodSpec, field_path: str
) -> FieldErrors:
    of_pod = spec.securityContext.appArmorProfile if spec.securityContext is not None else None
    for part, container, index in containers_by_field(spec):
        own = container.securityContext.appArmorProfile if container.securityContext is not None else None
        profile = own or of_pod
        annotation = annotations.get(APPARMOR + container.name)
        if profile is not None and annotation is not None:
            path = f"{field_path}.{part}[{index}].securityContext.appArmorProfile"
            yield from _validate_annotation_matches_field(annotation, profile, path, "apparmor")


def _validate_annotation_matches_field(
    annotation: str, profile: SeccompProfile | AppArmorProfile, path: str, field_name: str
) -> FieldErrors:
    matches = {
        "Unconfined": annotation == "unconfined",
        "RuntimeDefault": annotation == "runtime/default"
        or (field_name == "seccomp" and annotation == "docker/default"),
        "Localhost": annotation.startswith(_LOCAL),
    }
    if not matches.get(profile.type, True):
        yield FieldError.forbidden(f"{path}.type", f"{field_name} type in annotation and field must match")
    elif profile.type == "Localhost" and annotation.removeprefix(_LOCAL) != profile.localhostProfile:
        yield FieldError.forbidden(
            f"{path}.localhostProfile", f"{field_name} profile in annotation and field must match"
        )


def app_armor_of(annotation: str) -> AppArmorProfile | None:
    """Return the profile that an annotation stands for, None if it is invalid."""
    if annotation == "unconfined":
        return AppArmorProfile(type="Unconfined")
    if annotation == "runtime/default":
        return AppArmorProfile(type="RuntimeDefault")
    if annotation.startswith(_LOCAL) and annotation != _LOCAL:
        return AppArmorProfile(type="Localhost", localhostProfile=annotation.removeprefix(_LOCAL))
    return None


def fields_from_annotations(pod: Pod) -> list[str]:
    """Set the AppArmor fields of a new pod from its annotations, and return the deprecation warnings."""
    warnings: list[str] = []
    if pod.spec.os is not None and pod.spec.os.name == "windows":
        return warnings
    context = pod.spec.securityContext
    of_pod = context.appArmorProfile if context is not None else None
    for _, container, _ in containers_by_field(pod.spec):
        key = APPARMOR + container.name
        own = container.securityContext
        if key not in pod.metadata.annotations or (own is not None and own.appArmorProfile is not None):
            continue
        profile = app_armor_of(pod.metadata.annotations[key])
        if profile is not None and any(validate_app_armor(profile, "")):
            profile = None
        if profile is not None and profile != of_pod:
            container.securityContext = own or SecurityContext()
            container.securityContext.appArmorProfile = profile
        elif profile is not None:
            continue
        text = 'deprecated since v1.30; use the "appArmorProfile" field instead'
        warnings.append(f"metadata.annotations[{key}]: {text}")
    return warnings


_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


def validate_pod_annotations(
    annotations: Mapping[str, str], spec: PodSpec, options: PodValidationOptions, path: str
) -> FieldErrors:
    if not annotations:
        return
    if CONFIG_MIRROR in annotations and not spec.nodeName:
        text = "must set spec.nodeName if mirror pod annotation is set"
        yield FieldError.invalid(f"{path}[{CONFIG_MIRROR}]", annotations[CONFIG_MIRROR], text)
    if has_bad_deletion_cost(annotations) and not options.bad_deletion_cost:
        yield FieldError.invalid(f"{path}[{_DELETION_COST}]", annotations[_DELETION_COST], "must be a 32bit integer")
    yield from validate_profile_annotations(annotations, spec, path)


def has_bad_deletion_cost(annotations: Mapping[str, str]) -> bool:
    cost = annotations.get(_DELETION_COST)
    if cost is None or cost == "0":
        return False
    digits = cost.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or (digits is cost and digits.startswith("0")):
        return True
    return not -(2**31) <= int(cost[:20]) < 2**31


def validate_pod_annotation_update(new: Mapping[str, str], old: Mapping[str, str], path: str) -> FieldErrors:
    """Yield errors for changes of immutable annotations."""
    for key in sorted(old):
        if new.get(key) != old[key]:
            if key.startswith(APPARMOR):
                yield FieldError.forbidden(f"{path}[{key}]", "may not remove or update AppArmor annotations")
            if key == CONFIG_MIRROR:
                yield FieldError.forbidden(f"{path}[{key}]", "may not remove or update mirror pod annotation")
    for key in sorted(new.keys() - old.keys()):
        if key.startswith(APPARMOR):
            yield FieldError.forbidden(f"{path}[{key}]", "may not add AppArmor annotations")
        if key == CONFIG_MIRROR:
            yield FieldError.forbidden(f"{path}[{key}]", "may not add mirror pod annotation")
