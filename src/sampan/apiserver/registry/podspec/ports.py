"""Validation of container ports."""

from collections.abc import Iterable, Sequence

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.semantics.pods import AnyContainer
from sampan.api.types.core_v1 import Container, ContainerPort
from sampan.apiserver.registry.validation import FieldErrors, validate_one_of

_PROTOCOLS = ("SCTP", "TCP", "UDP")


def validate_container_ports(ports: Sequence[ContainerPort], path: str) -> FieldErrors:
    port_names: set[str] = set()
    for index, port in enumerate(ports):
        if port.name:
            yield from _validate_name(port.name, port_names, f"{path}[{index}].name")
        if port.containerPort == 0:
            yield FieldError.required(f"{path}[{index}].containerPort")
        else:
            yield from validate_port_number(port.containerPort, f"{path}[{index}].containerPort")
        if port.hostPort:
            yield from validate_port_number(port.hostPort, f"{path}[{index}].hostPort")
        if port.protocol not in _PROTOCOLS:
            yield from validate_one_of(port.protocol, _PROTOCOLS, f"{path}[{index}].protocol")


def _validate_name(name: str, known_names: set[str], path: str) -> FieldErrors:
    messages = names.port_name(name)
    for text in messages:
        yield FieldError.invalid(path, name, text)
    if messages:
        return
    if name in known_names:
        yield FieldError.duplicate(path, name)
    known_names.add(name)


def validate_port_number(value: int, path: str) -> FieldErrors:
    if not 1 <= value <= 65535:
        yield FieldError.invalid(path, value, names.out_of_range_message(1, 65535))


def validate_port_or_name(value: int | str, path: str) -> FieldErrors:
    if isinstance(value, int):
        yield from validate_port_number(value, path)
        return
    for text in names.port_name(value):
        yield FieldError.invalid(path, value, text)


def validate_host_port_conflicts(containers: Iterable[AnyContainer], path: str) -> FieldErrors:
    """Yield an error for each host port that is used twice."""
    host_ports: set[str] = set()
    for container_index, container in enumerate(containers):
        for index, port in enumerate(container.ports):
            if port.hostPort == 0:
                continue
            host_port = f"{port.protocol}/{port.hostIP}/{port.hostPort}"
            if host_port in host_ports:
                yield FieldError.duplicate(f"{path}[{container_index}].ports[{index}].hostPort", host_port)
            host_ports.add(host_port)


def validate_host_network_ports(containers: Iterable[Container], path: str, *, is_pod: bool) -> FieldErrors:
    """Yield errors if a host port differs from the container port; in a template it may be unset."""
    for container_index, container in enumerate(containers):
        for index, port in enumerate(container.ports):
            if (is_pod or port.hostPort != 0) and port.hostPort != port.containerPort:
                text = "must match `containerPort` when `hostNetwork` is true"
                yield FieldError.invalid(f"{path}[{container_index}].ports[{index}].hostPort", port.hostPort, text)
