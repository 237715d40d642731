"""Validation of environment variables and their sources."""

import re
from collections.abc import Collection, Sequence

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.semantics.pods import containers_by_field
from sampan.api.types.core_v1 import (
    ConfigMapEnvSource,
    ConfigMapKeySelector,
    EnvFromSource,
    EnvVar,
    EnvVarSource,
    FileKeySelector,
    ObjectFieldSelector,
    PodSpec,
    ResourceFieldSelector,
    SecretEnvSource,
    SecretKeySelector,
    Volume,
)
from sampan.api.values import quantity
from sampan.apiserver.registry.validation import (
    FieldErrors,
    validate_dns_label,
    validate_path_no_backsteps,
    validate_qualified_name,
)

ENV_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
VOLUME_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_KNOWN_FIELDS = frozenset(
    {*ENV_FIELDS, *VOLUME_FIELDS, "spec.restartPolicy", "spec.schedulerName", "status.phase", "spec.host"}
)
_RESOURCES = tuple(
    f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)
_HUGE_PAGES = ("requests.hugepages-", "limits.hugepages-")
_BYTES = ("1", *(f"1{unit}" for unit in ("k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")))


def validate_env(variables: Sequence[EnvVar], path: str) -> FieldErrors:
    for index, variable in enumerate(variables):
        if not _is_plain_name(variable.name):
            yield from _validate_name(variable.name, f"{path}[{index}].name")
        if variable.valueFrom is not None:
            yield from _validate_value_from(variable.valueFrom, variable.value, f"{path}[{index}].valueFrom")


_is_plain_name = re.compile(r"[ -<>-~]+").fullmatch
"""A fast check: there are many variables, and nearly all names are valid."""


def _validate_name(name: str, path: str) -> FieldErrors:
    if not name:
        yield FieldError.required(path)
        return
    for text in names.env_var_name(name):
        yield FieldError.invalid(path, name, text)


def _validate_value_from(source: EnvVarSource, value: str, path: str) -> FieldErrors:
    yield from _validate_env_from_source(source, path)
    count = sum(getattr(source, name) is not None for name in EnvVarSource.__struct_fields__)
    if count == 0:
        text = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        yield FieldError.invalid(path, "", text)
    elif value:
        yield FieldError.invalid(path, "", "may not be specified when `value` is not empty")
    elif count > 1:
        yield FieldError.invalid(path, "", "may not have more than one field specified at a time")


def _validate_env_from_source(source: EnvVarSource, path: str) -> FieldErrors:
    if source.fieldRef is not None:
        yield from validate_object_field_selector(source.fieldRef, ENV_FIELDS, f"{path}.fieldRef")
    if source.resourceFieldRef is not None:
        yield from validate_resource_field_selector(
            source.resourceFieldRef, f"{path}.resourceFieldRef", needs_container=False
        )
    if source.configMapKeyRef is not None:
        yield from _validate_key_ref(source.configMapKeyRef, f"{path}.configMapKeyRef")
    if source.secretKeyRef is not None:
        yield from _validate_key_ref(source.secretKeyRef, f"{path}.secretKeyRef")
    if source.fileKeyRef is not None:
        yield from _validate_file_ref(source.fileKeyRef, f"{path}.fileKeyRef")


def validate_object_field_selector(ref: ObjectFieldSelector, allowed: Collection[str], field_path: str) -> FieldErrors:
    if not ref.apiVersion or not ref.fieldPath:
        yield FieldError.required(f"{field_path}.fieldPath" if ref.apiVersion else f"{field_path}.apiVersion")
        return
    path, subscript = _split_subscript(ref.fieldPath)
    if problem := _unknown_field(ref, path, subscript):
        yield FieldError.invalid(f"{field_path}.fieldPath", ref.fieldPath, f"error converting fieldPath: {problem}")
    elif subscript is not None:
        yield from validate_qualified_name(
            subscript.lower() if path == "metadata.annotations" else subscript, field_path
        )
    elif (path := "spec.nodeName" if path == "spec.host" else path) not in allowed:
        yield FieldError.not_supported(f"{field_path}.fieldPath", path, allowed)


def _split_subscript(path: str) -> tuple[str, str | None]:
    """Split a field path into path and subscript, as in metadata.labels['app']."""
    before, bracket, subscript = path.removesuffix("']").partition("['")
    return (before, subscript) if path.endswith("']") and bracket and before else (path, None)


def _unknown_field(ref: ObjectFieldSelector, path: str, subscript: str | None) -> str:
    if ref.apiVersion != "v1":
        return f"unsupported pod version: {ref.apiVersion}"
    if subscript is not None:
        is_map = path in ("metadata.annotations", "metadata.labels")
        return "" if is_map else f"field label does not support subscript: {ref.fieldPath}"
    return "" if path in _KNOWN_FIELDS else f"field label not supported: {path}"


def validate_resource_field_selector(ref: ResourceFieldSelector, path: str, *, needs_container: bool) -> FieldErrors:
    if needs_container and not ref.containerName:
        yield FieldError.required(f"{path}.containerName")
    elif not ref.resource:
        yield FieldError.required(f"{path}.resource")
    elif ref.resource not in _RESOURCES and not ref.resource.startswith(_HUGE_PAGES):
        yield FieldError.not_supported(f"{path}.resource", ref.resource, _RESOURCES)
    yield from _validate_divisor(ref, f"{path}.divisor")


def _validate_divisor(ref: ResourceFieldSelector, path: str) -> FieldErrors:
    if ref.divisor == "0" or not quantity.parse(ref.divisor):
        return
    resource = ref.resource.partition(".")[2]
    if ref.resource.startswith(_HUGE_PAGES):
        resource = "hugepages"
    elif ref.resource not in _RESOURCES:
        return
    allowed = ("1m", "1") if resource == "cpu" else _BYTES
    if ref.divisor not in allowed:
        listed = "1m and 1" if resource == "cpu" else ", ".join(_BYTES)
        resource_text = "local ephemeral storage" if resource == "ephemeral-storage" else resource
        text = f"only divisor's values {listed} are supported with the {resource_text} resource"
        yield FieldError.invalid(path, ref.resource, text)


def _validate_key_ref(ref: ConfigMapKeySelector | SecretKeySelector, path: str) -> FieldErrors:
    for text in names.dns1123_subdomain(ref.name):
        yield FieldError.invalid(f"{path}.name", ref.name, text)
    if not ref.key:
        yield FieldError.required(f"{path}.key")
        return
    for text in names.config_map_key(ref.key):
        yield FieldError.invalid(f"{path}.key", ref.key, text)


def _validate_file_ref(ref: FileKeySelector, path: str) -> FieldErrors:
    if not ref.key:
        yield FieldError.required(f"{path}.key")
    else:
        for text in names.env_var_name(ref.key):
            yield FieldError.invalid(f"{path}.key", ref.key, text)
    if not ref.volumeName:
        yield FieldError.required(f"{path}.volumeName")
    else:
        yield from validate_dns_label(ref.volumeName, f"{path}.volumeName")
    if not ref.path:
        yield FieldError.required(f"{path}.path")
    yield from validate_path_no_backsteps(ref.path, f"{path}.path")


def validate_env_from(sources: Sequence[EnvFromSource], path: str) -> FieldErrors:
    for index, source in enumerate(sources):
        if source.prefix:
            for text in names.env_var_name(source.prefix):
                yield FieldError.invalid(f"{path}[{index}].prefix", source.prefix, text)
        if source.configMapRef is not None:
            yield from _validate_object_ref(source.configMapRef, f"{path}[{index}].configMapRef.name")
        if source.secretRef is not None:
            yield from _validate_object_ref(source.secretRef, f"{path}[{index}].secretRef.name")
        if source.configMapRef is None and source.secretRef is None:
            yield FieldError.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif source.configMapRef is not None and source.secretRef is not None:
            yield FieldError.invalid(path, "", "may not have more than one field specified at a time")


def _validate_object_ref(ref: ConfigMapEnvSource | SecretEnvSource, path: str) -> FieldErrors:
    if not ref.name:
        yield FieldError.required(path)
        return
    for text in names.dns1123_subdomain(ref.name, prefix=True):
        yield FieldError.invalid(path, ref.name, text)


def validate_file_volume(spec: PodSpec, field_path: str) -> FieldErrors:
    """Yield errors if a fileKeyRef refers to a volume that is missing or not an emptyDir."""
    volumes: dict[str, Volume] = {}
    for volume in reversed(spec.volumes):
        volumes[volume.name] = volume
    for part, container, container_index in containers_by_field(spec):
        for index, variable in enumerate(container.env):
            if variable.valueFrom is None or variable.valueFrom.fileKeyRef is None:
                continue
            name = variable.valueFrom.fileKeyRef.volumeName
            path = f"{field_path}.{part}[{container_index}].env[{index}].valueFrom.fileKeyRef.volumeName"
            if name not in volumes:
                yield FieldError.not_found(path, name)
            elif volumes[name].emptyDir is None:
                yield FieldError.invalid(path, name, "referenced volume must be of type emptyDir")
