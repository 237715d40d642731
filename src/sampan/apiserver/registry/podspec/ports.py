"""Validation of container ports."""

from collections.abc import Iterable, Sequence

from sampan.api import names
from sampan.api.faults import FieldError
from sampan.api.types.core_v1 import Container, ContainerPort
from sampan.apiserver.registry.podspec.everywhere import AnyContainer
from sampan.apiserver.registry.podspec.formats import Faults, one_of

_PROTOCOLS = ("SCTP", "TCP", "UDP")


def port_faults(ports: Sequence[ContainerPort], at: str) -> Faults:
    port_names: set[str] = set()
    for index, port in enumerate(ports):
        if port.name:
            yield from _name(port.name, port_names, f"{at}[{index}].name")
        if port.containerPort == 0:
            yield FieldError.required(f"{at}[{index}].containerPort")
        else:
            yield from port_number(port.containerPort, f"{at}[{index}].containerPort")
        if port.hostPort:
            yield from port_number(port.hostPort, f"{at}[{index}].hostPort")
        if port.protocol not in _PROTOCOLS:
            yield from one_of(port.protocol, _PROTOCOLS, f"{at}[{index}].protocol")


def _name(name: str, seen: set[str], at: str) -> Faults:
    messages = names.port_name(name)
    for text in messages:
        yield FieldError.invalid(at, name, text)
    if messages:
        return
    if name in seen:
        yield FieldError.duplicate(at, name)
    seen.add(name)


def port_number(value: int, at: str) -> Faults:
    if not 1 <= value <= 65535:
        yield FieldError.invalid(at, value, names.out_of_range(1, 65535))


def port_or_name(value: int | str, at: str) -> Faults:
    if isinstance(value, int):
        yield from port_number(value, at)
        return
    for text in names.port_name(value):
        yield FieldError.invalid(at, value, text)


def host_port_conflicts(containers: Iterable[AnyContainer], at: str) -> Faults:
    """Yield an error for each host port that is used twice."""
    host_ports: set[str] = set()
    for container_index, container in enumerate(containers):
        for index, port in enumerate(container.ports):
            if port.hostPort == 0:
                continue
            host_port = f"{port.protocol}/{port.hostIP}/{port.hostPort}"
            if host_port in host_ports:
                yield FieldError.duplicate(f"{at}[{container_index}].ports[{index}].hostPort", host_port)
            host_ports.add(host_port)


def host_network_faults(containers: Iterable[Container], at: str, *, is_pod: bool) -> Faults:
    """Yield errors if a host port differs from the container port; in a template it may be unset."""
    for container_index, container in enumerate(containers):
        for index, port in enumerate(container.ports):
            if (is_pod or port.hostPort != 0) and port.hostPort != port.containerPort:
                text = "must match `containerPort` when `hostNetwork` is true"
                yield FieldError.invalid(f"{at}[{container_index}].ports[{index}].hostPort", port.hostPort, text)
