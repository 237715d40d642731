"""Pure computation of a container's environment variables from the objects in `Sources`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sampan.api import limits
from sampan.api.types.core_v1 import (
    ConfigMap,
    ConfigMapEnvSource,
    ConfigMapKeySelector,
    Container,
    EnvFromSource,
    EnvVarSource,
    FileKeySelector,
    Pod,
    Secret,
    SecretEnvSource,
    SecretKeySelector,
)
from sampan.kubelet.environment.downward import FieldUnknown, Surroundings, field_value, resource_value
from sampan.kubelet.environment.expansion import expand
from sampan.runtimes.safe_paths import UnsafePath


class ConfigFault(ValueError):
    """A container cannot be configured; the message is for its status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Objects that variables refer to; None for one that does not exist."""

    config_map: Callable[[str], ConfigMap | None]
    secret: Callable[[str], Secret | None]
    file_key: Callable[[FileKeySelector], str | None]
    """Return the value of a key in a file of the pod's volumes."""
    services: Mapping[str, str]


def container_variables(pod: Pod, container: Container, sources: Sources, around: Surroundings) -> dict[str, str]:
    """Return the variables in the order of their declaration, services last. Raise ConfigFault on errors."""
    variables: dict[str, str] = {}
    room = limits.EXPANDED_CHARACTERS
    for source in container.envFrom:
        variables |= _all_of(pod, source, sources)
    for variable in container.env:
        value = variable.value
        if value:
            value = expand(value, variables, sources.services)
        elif variable.valueFrom is not None:
            referenced_value = _taken(pod, container, variable.valueFrom, sources, around)
            if referenced_value is None:
                continue
            value = referenced_value
        variables[variable.name] = value
        room -= len(value)
        if room < 0:
            raise ConfigFault(f"environment variables exceed {limits.EXPANDED_CHARACTERS} characters")
    return {**variables, **{name: value for name, value in sources.services.items() if name not in variables}}


def _all_of(pod: Pod, source: EnvFromSource, sources: Sources) -> dict[str, str]:
    if source.configMapRef is not None:
        config = _config_map(pod, source.configMapRef, sources)
        data = config.data if config is not None else {}
    elif source.secretRef is not None:
        secret = _secret(pod, source.secretRef, sources)
        data = {key: _text(value) for key, value in (secret.data if secret is not None else {}).items()}
    else:
        return {}
    return {f"{source.prefix}{key}": value for key, value in data.items()}


def _taken(pod: Pod, container: Container, source: EnvVarSource, sources: Sources, around: Surroundings) -> str | None:
    """Return the value, or None if it is optional and missing."""
    try:
        if source.fieldRef is not None:
            return field_value(pod, source.fieldRef.fieldPath, around)
        if source.resourceFieldRef is not None:
            selector = source.resourceFieldRef
            return resource_value(_named(pod, container, selector.containerName), selector, around.allocatable or {})
    except FieldUnknown as error:
        raise ConfigFault(str(error)) from None
    if source.configMapKeyRef is not None:
        return _map_key(pod, source.configMapKeyRef, sources)
    if source.secretKeyRef is not None:
        return _secret_key(pod, source.secretKeyRef, sources)
    if source.fileKeyRef is not None:
        return _file_key(source.fileKeyRef, sources)
    return ""


def _named(pod: Pod, container: Container, name: str) -> Container:
    if not name:
        return container
    containers: list[Container] = [*(pod.spec.containers or ()), *pod.spec.initContainers]
    for candidate in containers:
        if candidate.name == name:
            return candidate
    raise ConfigFault(f"container {name} not found")


def _map_key(pod: Pod, ref: ConfigMapKeySelector, sources: Sources) -> str | None:
    config_map = _config_map(pod, ref, sources)
    if config_map is not None and ref.key in config_map.data:
        return config_map.data[ref.key]
    if ref.optional:
        return None
    raise ConfigFault(f"couldn't find key {ref.key} in ConfigMap {pod.metadata.namespace}/{ref.name}")


def _secret_key(pod: Pod, ref: SecretKeySelector, sources: Sources) -> str | None:
    secret = _secret(pod, ref, sources)
    if secret is not None and ref.key in secret.data:
        return _text(secret.data[ref.key])
    if ref.optional:
        return None
    raise ConfigFault(f"couldn't find key {ref.key} in Secret {pod.metadata.namespace}/{ref.name}")


def _file_key(ref: FileKeySelector, sources: Sources) -> str | None:
    try:
        value = sources.file_key(ref)
    except UnsafePath as error:
        if ref.optional:
            return None
        raise ConfigFault(f"couldn't parse env file: {error}") from None
    if value or ref.optional:
        return value or None
    raise ConfigFault(f'environment variable key "{ref.key}" not found in file "{ref.path}"')


def _config_map(pod: Pod, ref: ConfigMapEnvSource | ConfigMapKeySelector, sources: Sources) -> ConfigMap | None:
    config_map = sources.config_map(ref.name)
    if config_map is None and not ref.optional:
        raise ConfigFault(f'configmap "{ref.name}" not found')
    return config_map


def _secret(pod: Pod, ref: SecretEnvSource | SecretKeySelector, sources: Sources) -> Secret | None:
    secret = sources.secret(ref.name)
    if secret is None and not ref.optional:
        raise ConfigFault(f'secret "{ref.name}" not found')
    return secret


def _text(value: bytes | str) -> str:
    """Decode the value. Bytes that are not UTF-8 are preserved by surrogate escapes, as in `os.environ`."""
    return value if isinstance(value, str) else value.decode("utf-8", "surrogateescape")
