"""Pure computation of a container's environment variables: from the objects in `VariableSources`, from services
(`pkg/kubelet/envvars`), and by expansion of $(VAR), where `$$` is a literal dollar sign
(`third_party/forked/golang/expansion`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sampan.api import limits
from sampan.api.addresses import url_host
from sampan.api.semantics.pods import init_and_main_containers
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
    Service,
    ServicePort,
)
from sampan.kubelet.container_config.downward import DownwardApiContext, FieldUnknown, field_value, resource_value
from sampan.runtimes.safe_paths import UnsafePath


def expand(text: str, *variables: Mapping[str, str], character_budget: int = limits.EXPANDED_CHARACTERS) -> str:
    """Expand the references $(NAME) in the text. The value is taken from the first mapping that has the name. Unknown
    references are left as they are. Once the values have used up `character_budget` characters, all further references
    are left too, which bounds the size of the result."""
    if "$" not in text:
        return text
    parts: list[str] = []
    path, last_close = 0, text.rfind(")")
    while (dollar := text.find("$", path)) >= 0:
        parts.append(text[path:dollar])
        path = dollar + 2
        next_character = text[dollar + 1 : path]
        if next_character == "$":
            parts.append("$")
        elif next_character == "(" and path <= last_close:
            close = text.index(")", path)
            value = _value(text[path:close], variables) if character_budget > 0 else None
            parts.append(text[dollar : close + 1] if value is None else value)
            character_budget -= len(parts[-1])
            path = close + 1
        else:
            parts.append("$")
            path = dollar + 1
    return "".join([*parts, text[path:]])


def _value(name: str, variables: Sequence[Mapping[str, str]]) -> str | None:
    for values in variables:
        if name in values:
            return values[name]
    return None


def expand_all(texts: Sequence[str], variables: Mapping[str, str]) -> list[str]:
    expanded: list[str] = []
    character_budget = limits.EXPANDED_CHARACTERS
    for text in texts:
        expanded.append(expand(text, variables, character_budget=character_budget))
        character_budget -= len(expanded[-1])
    return expanded


class ContainerConfigError(ValueError):
    """A container cannot be configured; the message is for its status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariableSources:
    """The objects that environment variables refer to; None for an object that does not exist."""

    config_map: Callable[[str], ConfigMap | None]
    secret: Callable[[str], Secret | None]
    file_key: Callable[[FileKeySelector], str | None]
    """Return the value of a key in a file of the pod's volumes."""
    services: Mapping[str, str]


def container_variables(
    pod: Pod, container: Container, sources: VariableSources, context: DownwardApiContext
) -> dict[str, str]:
    """Return the variables in the order of their declaration, services last. Raise ContainerConfigError on errors."""
    variables: dict[str, str] = {}
    character_budget = limits.EXPANDED_CHARACTERS
    for source in container.envFrom:
        variables |= _env_from(pod, source, sources)
    for variable in container.env:
        value = variable.value
        if value:
            value = expand(value, variables, sources.services)
        elif variable.valueFrom is not None:
            referenced_value = _resolve_reference(pod, container, variable.valueFrom, sources, context)
            if referenced_value is None:
                continue
            value = referenced_value
        variables[variable.name] = value
        character_budget -= len(value)
        if character_budget < 0:
            raise ContainerConfigError(f"environment variables exceed {limits.EXPANDED_CHARACTERS} characters")
    return {**variables, **{name: value for name, value in sources.services.items() if name not in variables}}


def _env_from(pod: Pod, source: EnvFromSource, sources: VariableSources) -> dict[str, str]:
    if source.configMapRef is not None:
        config = _config_map(pod, source.configMapRef, sources)
        data = config.data if config is not None else {}
    elif source.secretRef is not None:
        secret = _secret(pod, source.secretRef, sources)
        data = {key: _text(value) for key, value in (secret.data if secret is not None else {}).items()}
    else:
        return {}
    return {f"{source.prefix}{key}": value for key, value in data.items()}


def _resolve_reference(
    pod: Pod, container: Container, source: EnvVarSource, sources: VariableSources, context: DownwardApiContext
) -> str | None:
    """Return the value of a variable that refers to another object, or None if the reference is optional and its object
    is missing.
    """
    try:
        if source.fieldRef is not None:
            return field_value(pod, source.fieldRef.fieldPath, context)
        if source.resourceFieldRef is not None:
            selector = source.resourceFieldRef
            return resource_value(
                _find_container(pod, container, selector.containerName), selector, context.allocatable or {}
            )
    except FieldUnknown as error:
        raise ContainerConfigError(str(error)) from None
    if source.configMapKeyRef is not None:
        return _map_key(pod, source.configMapKeyRef, sources)
    if source.secretKeyRef is not None:
        return _secret_key(pod, source.secretKeyRef, sources)
    if source.fileKeyRef is not None:
        return _file_key(source.fileKeyRef, sources)
    return ""


def _find_container(pod: Pod, container: Container, name: str) -> Container:
    if not name:
        return container
    containers: list[Container] = init_and_main_containers(pod.spec)
    for candidate in containers:
        if candidate.name == name:
            return candidate
    raise ContainerConfigError(f"container {name} not found")


def _map_key(pod: Pod, ref: ConfigMapKeySelector, sources: VariableSources) -> str | None:
    config_map = _config_map(pod, ref, sources)
    if config_map is not None and ref.key in config_map.data:
        return config_map.data[ref.key]
    if ref.optional:
        return None
    raise ContainerConfigError(f"couldn't find key {ref.key} in ConfigMap {pod.metadata.namespace}/{ref.name}")


def _secret_key(pod: Pod, ref: SecretKeySelector, sources: VariableSources) -> str | None:
    secret = _secret(pod, ref, sources)
    if secret is not None and ref.key in secret.data:
        return _text(secret.data[ref.key])
    if ref.optional:
        return None
    raise ContainerConfigError(f"couldn't find key {ref.key} in Secret {pod.metadata.namespace}/{ref.name}")


def _file_key(ref: FileKeySelector, sources: VariableSources) -> str | None:
    try:
        value = sources.file_key(ref)
    except UnsafePath as error:
        if ref.optional:
            return None
        raise ContainerConfigError(f"couldn't parse env file: {error}") from None
    if value or ref.optional:
        return value or None
    raise ContainerConfigError(f'environment variable key "{ref.key}" not found in file "{ref.path}"')


def _config_map(pod: Pod, ref: ConfigMapEnvSource | ConfigMapKeySelector, sources: VariableSources) -> ConfigMap | None:
    config_map = sources.config_map(ref.name)
    if config_map is None and not ref.optional:
        raise ContainerConfigError(f'configmap "{ref.name}" not found')
    return config_map


def _secret(pod: Pod, ref: SecretEnvSource | SecretKeySelector, sources: VariableSources) -> Secret | None:
    secret = sources.secret(ref.name)
    if secret is None and not ref.optional:
        raise ContainerConfigError(f'secret "{ref.name}" not found')
    return secret


def _text(value: bytes | str) -> str:
    """Decode the bytes of a value. Bytes that are not UTF-8 are preserved by surrogate escapes, as in `os.environ`."""
    return value if isinstance(value, str) else value.decode("utf-8", "surrogateescape")


_MASTER = ("default", "kubernetes")
"""The name of the API server's service, whose variables every container gets."""


def service_variables(services: Iterable[Service], namespace: str, *, has_links: bool) -> dict[str, str]:
    """Return the variables of the API server's service, and with `has_links` of all services of the namespace."""
    chosen: dict[str, Service] = {}
    for service in services:
        meta = service.metadata
        if service.spec.clusterIP in ("", "None") or not service.spec.ports:
            continue
        if (meta.namespace, meta.name) == _MASTER:
            chosen.setdefault(meta.name, service)
        elif meta.namespace == namespace and has_links:
            chosen[meta.name] = service
    return dict(pair for service in chosen.values() for pair in _variables(service))


def _variables(service: Service) -> Iterator[tuple[str, str]]:
    name, address = _upper(service.metadata.name), service.spec.clusterIP
    ports = service.spec.ports
    yield f"{name}_SERVICE_HOST", address
    yield f"{name}_SERVICE_PORT", str(ports[0].port)
    for port in ports:
        if port.name:
            yield f"{name}_SERVICE_PORT_{_upper(port.name)}", str(port.port)
    yield f"{name}_PORT", _url(address, ports[0])
    for port in ports:
        prefix = f"{name}_PORT_{port.port}_{(port.protocol or 'TCP').upper()}"
        yield prefix, _url(address, port)
        yield f"{prefix}_PROTO", (port.protocol or "TCP").lower()
        yield f"{prefix}_PORT", str(port.port)
        yield f"{prefix}_ADDR", address


def _url(address: str, port: ServicePort) -> str:
    host = url_host(address)
    return f"{(port.protocol or 'TCP').lower()}://{host}:{port.port}"


def _upper(name: str) -> str:
    return name.replace("-", "_").upper()
