"""Descriptions of containers: image, ports, command, state, resources, probes, environment and mounts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sampan.api.go_compat.gotext import quote
from sampan.kubectl.describers.layout import NONE, Lines, Value, items, part, time_text, true_or_false

_PROBES = (("Liveness", "livenessProbe"), ("Readiness", "readinessProbe"), ("Startup", "startupProbe"))


def containers(
    title: str, entries: Sequence[Value], statuses: Sequence[Value], pod: Value | None, indent: str
) -> Lines:
    """Yield the lines of a list of containers. `pod` is None for a pod template, whose containers have no state and
    whose titles are indented."""
    by_name = {status.get("name"): status for status in statuses}
    yield f"{indent}{title}:{'' if entries else ' ' + NONE}"
    for container in entries:
        yield f"  {' ' if indent else ''}{container.get('name')}:"
        yield from (f"    {line}" for line in _container(container, by_name.get(container.get("name")), pod))


def _container(container: Value, status: Value | None, pod: Value | None) -> Lines:
    if status is not None:
        yield f"Container ID:\t{status.get('containerID', '')}"
    yield f"Image:\t{container.get('image', '')}"
    if status is not None:
        yield f"Image ID:\t{status.get('imageID', '')}"
    ports = items(container, "ports")
    for title, field in (("Port", "containerPort"), ("Host Port", "hostPort")):
        text = ", ".join(_port(port, field) for port in ports)
        yield f"{title}{'s' if ',' in text else ''}:\t{text or NONE}"
    if profile := part(container, "securityContext").get("seccompProfile"):
        yield f"SeccompProfile:\t{profile.get('type')}"
        if profile.get("type") == "Localhost":
            yield f"  LocalhostProfile:\t{profile.get('localhostProfile', '')}"
    for title, field in (("Command", "command"), ("Args", "args")):
        if container.get(field):
            yield f"{title}:"
            yield from (f"  {line}" for word in container[field] for line in word.split("\n"))
    if status is not None:
        yield from _state("State", status.get("state") or {})
        if part(status, "lastState").get("terminated"):
            yield from _state("Last State", status["lastState"])
        yield f"Ready:\t{true_or_false(bool(status.get('ready')))}"
        yield f"Restart Count:\t{status.get('restartCount', 0)}"
    yield from resources(container.get("resources") or {})
    for title, field in _PROBES:
        if container.get(field):
            yield f"{title}:\t{probe_text(container[field])}"
    yield from _environment_sources(items(container, "envFrom"))
    yield from _environment(container, pod)
    yield from _mounts(container)


def _port(port: Value, field: str) -> str:
    name = f" ({port['name']})" if port.get("name") else ""
    return f"{port.get(field, 0)}/{port.get('protocol', 'TCP')}{name}"


def resources(requirements: Value) -> Lines:
    for title, field in (("Limits", "limits"), ("Requests", "requests")):
        if amounts := requirements.get(field):
            yield f"{title}:"
            yield from (f"  {name}:\t{amount}" for name, amount in sorted(amounts.items()))


def _state(title: str, state: Value) -> Lines:
    if "running" in state:
        yield f"{title}:\tRunning"
        yield f"  Started:\t{time_text(state['running'].get('startedAt'))}"
    elif "terminated" in state and "waiting" not in state:
        termination = state["terminated"]
        yield f"{title}:\tTerminated"
        for name, field in (("Reason", "reason"), ("Message", "message")):
            if termination.get(field):
                yield f"  {name}:\t{termination[field]}"
        yield f"  Exit Code:\t{termination.get('exitCode', 0)}"
        if termination.get("signal"):
            yield f"  Signal:\t{termination['signal']}"
        yield f"  Started:\t{time_text(termination.get('startedAt'))}"
        yield f"  Finished:\t{time_text(termination.get('finishedAt'))}"
    else:
        yield f"{title}:\tWaiting"
        if reason := part(state, "waiting").get("reason"):
            yield f"  Reason:\t{reason}"


def probe_text(probe: Value) -> str:
    numbers = (
        f"delay={probe.get('initialDelaySeconds', 0)}s timeout={probe.get('timeoutSeconds', 0)}s "
        f"period={probe.get('periodSeconds', 0)}s "
        f"successThreshold={probe.get('successThreshold', 0)} failureThreshold={probe.get('failureThreshold', 0)}"
    )
    if "exec" in probe:
        return f"exec [{' '.join(items(probe, 'exec', 'command'))}] {numbers}"
    if check := probe.get("httpGet"):
        host, path = str(check.get("host", "")), str(check.get("path", ""))
        address = f"[{host}]" if ":" in host else host
        slash = "/" if path and not path.startswith("/") else ""
        return f"http-get {check.get('scheme', '').lower()}://{address}:{check.get('port')}{slash}{path} {numbers}"
    if check := probe.get("tcpSocket"):
        return f"tcp-socket {check.get('host', '')}:{check.get('port')} {numbers}"
    if check := probe.get("grpc"):
        return f"grpc <pod>:{check.get('port')} {check.get('service') or ''} {numbers}"
    return f"unknown {numbers}"


def _optional(source: Value) -> str:
    return f"Optional: {'true' if source.get('optional') else 'false'}"


def _environment_sources(sources: Sequence[Value]) -> Lines:
    if not sources:
        return
    yield "Environment Variables from:"
    for entry in sources:
        kind = "ConfigMap" if "configMapRef" in entry else "Secret"
        source = entry.get("configMapRef") or entry.get("secretRef") or {}
        prefix = f" with prefix '{entry['prefix']}'" if entry.get("prefix") else ""
        yield f"  {source.get('name', '')}\t{kind}{prefix}\t{_optional(source)}"


def _environment(container: Value, pod: Value | None) -> Lines:
    variables = items(container, "env")
    yield f"Environment:{'' if variables else chr(9) + NONE}"
    for variable in variables:
        source = variable.get("valueFrom")
        if source is None:
            first, *further_lines = str(variable.get("value", "")).split("\n")
            yield f"  {variable['name']}:\t{first}"
            yield from (f"  \t{line}" for line in further_lines)
        else:
            yield f"  {variable['name']}:\t{_source_text(source, container, pod)}"


def _source_text(source: Value, container: Value, pod: Value | None) -> str:
    if ref := source.get("fieldRef"):
        path = str(ref.get("fieldPath", ""))
        return f"{_field(pod, path)} ({ref.get('apiVersion', 'v1')}:{path})"
    if ref := source.get("resourceFieldRef"):
        resource = str(ref.get("resource", ""))
        value = _resource_value(container, resource, str(ref.get("divisor", "0")))
        if value == "0" and resource in ("limits.cpu", "limits.memory"):
            value = "node allocatable"
        return f"{value} ({resource})"
    if ref := source.get("secretKeyRef"):
        return f"<set to the key '{ref.get('key')}' in secret '{ref.get('name', '')}'>\t{_optional(ref)}"
    if ref := source.get("configMapKeyRef"):
        return f"<set to the key '{ref.get('key')}' of config map '{ref.get('name', '')}'>\t{_optional(ref)}"
    return ""


def _field(pod: Value | None, path: str) -> str:
    """Return the value of a field of the metadata; kubectl resolves no other fields, and no single labels."""
    if pod is None or not path.startswith("metadata."):
        return ""
    metadata, name = pod.get("metadata") or {}, path.removeprefix("metadata.")
    for field in ("labels", "annotations"):
        values: Mapping[str, Any] = metadata.get(field) or {}
        if name == field:
            return "\n".join(f"{key}={quote(str(value))}" for key, value in sorted(values.items()))
    value = metadata.get(name) if name in ("name", "namespace", "uid") else ""
    return value if isinstance(value, str) else ""


def _resource_value(container: Value, path: str, divisor: str) -> str:
    from sampan.api.values.quantity import QuantityError, parse

    section, _, name = path.partition(".")
    amount = part(container, "resources", section).get(name)
    if amount is None:
        return "0"
    try:
        unit, quantity = parse(divisor), parse(str(amount))
    except QuantityError:
        return ""
    if name == "cpu":
        milli = unit.milli_value() or 1000
        return str(-(-quantity.milli_value() // milli))
    return str(-(-quantity.value() // (unit.value() or 1)))


def _mounts(container: Value) -> Lines:
    mounts = sorted(items(container, "volumeMounts"), key=lambda mount: str(mount.get("mountPath", "")))
    yield f"Mounts:{'' if mounts else chr(9) + NONE}"
    for mount in mounts:
        flags = ["ro" if mount.get("readOnly") else "rw"]
        flags += [f"path={quote(mount['subPath'])}"] if mount.get("subPath") else []
        yield f"  {mount.get('mountPath')} from {mount.get('name')} ({','.join(flags)})"
    devices = sorted(items(container, "volumeDevices"), key=lambda device: str(device.get("devicePath", "")))
    if devices:
        yield f"Devices:{'' if mounts else chr(9) + NONE}"
        yield from (f"  {device.get('devicePath')} from {device.get('name')}" for device in devices)
