"""Selects how a probe is performed."""

from __future__ import annotations

from sampan.api.types.core_v1 import Container, Pod, Probe
from sampan.kubelet.environment.expansion import expand
from sampan.kubelet.probes import command, grpc, http, tcp
from sampan.kubelet.probes.results import Answer
from sampan.runtimes.contract import Runtime


async def ask(runtime: Runtime, pod: Pod, container: Container, probe: Probe, address: str) -> Answer:
    timeout_s = float(probe.timeoutSeconds or 1)
    if probe.exec is not None:
        fixed = {variable.name: variable.value for variable in container.env if variable.value}
        words = [expand(word, fixed) for word in probe.exec.command]
        return await command.ask(runtime, pod, container.name, words, timeout_s)
    try:
        if probe.httpGet is not None:
            url = http.url_of(probe.httpGet, address, port_of(probe.httpGet.port, container))
            return await http.ask(url, http.headers_of(probe.httpGet), timeout_s)
        if probe.tcpSocket is not None:
            host = probe.tcpSocket.host or address
            return await tcp.ask(host, port_of(probe.tcpSocket.port, container), timeout_s)
    except ValueError as error:
        return Answer(False, str(error), is_error=True)
    if probe.grpc is not None:
        return await grpc.ask(address, probe.grpc.port, probe.grpc.service or "", timeout_s)
    return Answer(False, f"missing probe handler for {pod.metadata.name}:{container.name}", is_error=True)


def port_of(port: int | str, container: Container) -> int:
    """Return the port by its number, or by its name in the container. Raise ValueError if there is none."""
    if isinstance(port, str) and not port.isdecimal():
        for container_port in container.ports:
            if container_port.name == port:
                return container_port.containerPort
        raise ValueError(f"couldn't find port by name {port!r}")
    number = int(port)
    if not 0 < number < 65536:
        raise ValueError(f"invalid port number: {number}")
    return number
