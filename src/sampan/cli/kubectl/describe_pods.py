"""Describe pods and pod templates: containers with their states, volumes, tolerations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

Value = Mapping[str, Any]

_VOLUME_KINDS = {
    "configMap": "ConfigMap (a volume populated by a ConfigMap)",
    "downwardAPI": "DownwardAPI (a volume populated by information about the pod)",
    "emptyDir": "EmptyDir (a temporary directory that shares a pod's lifetime)",
    "hostPath": "HostPath (bare host directory volume)",
    "nfs": "NFS (an NFS mount that lasts the lifetime of a pod)",
    "persistentVolumeClaim": "PersistentVolumeClaim (a reference to a PersistentVolumeClaim in the same namespace)",
    "projected": "Projected (a volume that contains injected data from multiple sources)",
    "secret": "Secret (a volume populated by a Secret)",
}
_PROBES = (("Liveness", "livenessProbe"), ("Readiness", "readinessProbe"), ("Startup", "startupProbe"))


def time_text(text: str | None) -> str:
    """Format a time as Go's RFC 1123 with a numeric zone."""
    if not text:
        return "<unset>"
    return datetime.fromisoformat(text.replace("Z", "+00:00")).strftime("%a, %d %b %Y %H:%M:%S %z")


def optional_text(value: bool | None) -> str:
    return "<nil>" if value is None else str(value).lower()


# -- containers ------------------------------------------------------------------------------------------------------


def containers(
    title: str, containers: Sequence[Value], statuses: Mapping[str, Value], pod: Value | None, indent: str
) -> Iterator[str]:
    """Yield the lines of a list of containers. `pod` is None for a pod template, whose containers have no state and
    whose titles are indented."""
    if not containers:
        return
    yield f"{indent}{title}:"
    for container in containers:
        yield f"{'   ' if indent else '  '}{container['name']}:"
        yield from (f"  {line}" for line in _container(container, statuses.get(container["name"]), pod))


def _container(container: Value, status: Value | None, pod: Value | None) -> Iterator[str]:
    if status is not None:
        yield f"  Container ID:\t{status.get('containerID', '')}"
    yield f"  Image:\t{container.get('image', '')}"
    if status is not None:
        yield f"  Image ID:\t{status.get('imageID', '')}"
    yield from _ports(container.get("ports") or ())
    yield from _lines("Command", container.get("command") or ())
    yield from _lines("Args", container.get("args") or ())
    if status is not None:
        yield from _state("State", status.get("state") or {})
        if (status.get("lastState") or {}).get("terminated"):
            yield from _state("Last State", status["lastState"])
        yield f"  Ready:\t{bool(status.get('ready'))}"
        yield f"  Restart Count:\t{status.get('restartCount', 0)}"
    for title, field in (("Limits", "limits"), ("Requests", "requests")):
        if amounts := (container.get("resources") or {}).get(field):
            yield f"  {title}:"
            yield from (f"    {name}:\t{amount}" for name, amount in sorted(amounts.items()))
    for title, field in _PROBES:
        if container.get(field):
            yield f"  {title}:\t{_probe(container[field])}"
    yield from _env_sources(container.get("envFrom") or ())
    yield from _environment(container, pod)
    yield from _mounts(container.get("volumeMounts") or ())


def _ports(ports: Sequence[Value]) -> Iterator[str]:
    plural = "s" if len(ports) > 1 else ""
    inside = ", ".join(f"{port['containerPort']}/{port.get('protocol', 'TCP')}" for port in ports)
    outside = ", ".join(f"{port.get('hostPort', 0)}/{port.get('protocol', 'TCP')}" for port in ports)
    yield f"  Port{plural}:\t{inside or '<none>'}"
    yield f"  Host Port{plural}:\t{outside or '<none>'}"


def _lines(title: str, words: Sequence[str]) -> Iterator[str]:
    if words:
        yield f"  {title}:"
        yield from (f"    {line}" for word in words for line in word.split("\n"))


def _state(title: str, state: Value) -> Iterator[str]:
    if "running" in state:
        yield f"  {title}:\tRunning"
        yield f"    Started:\t{time_text(state['running'].get('startedAt'))}"
    elif "terminated" in state:
        ended = state["terminated"]
        yield f"  {title}:\tTerminated"
        for name, field in (("Reason", "reason"), ("Message", "message")):
            if ended.get(field):
                yield f"    {name}:\t{ended[field]}"
        yield f"    Exit Code:\t{ended.get('exitCode', 0)}"
        if ended.get("signal"):
            yield f"    Signal:\t{ended['signal']}"
        yield f"    Started:\t{time_text(ended.get('startedAt'))}"
        yield f"    Finished:\t{time_text(ended.get('finishedAt'))}"
    else:
        yield f"  {title}:\tWaiting"
        if reason := (state.get("waiting") or {}).get("reason"):
            yield f"    Reason:\t{reason}"


def _probe(probe: Value) -> str:
    numbers = (
        f"delay={probe.get('initialDelaySeconds', 0)}s timeout={probe.get('timeoutSeconds', 1)}s "
        f"period={probe.get('periodSeconds', 10)}s #success={probe.get('successThreshold', 1)} "
        f"#failure={probe.get('failureThreshold', 3)}"
    )
    if check := probe.get("exec"):
        return f"exec [{' '.join(check.get('command') or ())}] {numbers}"
    if check := probe.get("httpGet"):
        path = "/" + str(check.get("path", "")).removeprefix("/") if check.get("path") else ""
        return (
            f"http-get {check.get('scheme', 'HTTP').lower()}://{check.get('host', '')}:{check['port']}{path} {numbers}"
        )
    if check := probe.get("tcpSocket"):
        return f"tcp-socket {check.get('host', '')}:{check['port']} {numbers}"
    if check := probe.get("grpc"):
        return f"grpc <pod>:{check['port']} {check.get('service') or ''} {numbers}"
    return f"unknown {numbers}"


def _env_sources(sources: Sequence[Value]) -> Iterator[str]:
    if not sources:
        return
    yield "  Environment Variables from:"
    for entry in sources:
        kind, source = (
            ("ConfigMap", entry["configMapRef"])
            if "configMapRef" in entry
            else ("Secret", entry.get("secretRef") or {})
        )
        prefix = f" with prefix '{entry['prefix']}'" if entry.get("prefix") else ""
        yield f"    {source.get('name', '')}\t{kind}{prefix}\t{_optional(source)}"


def _optional(source: Value) -> str:
    return f"Optional: {str(bool(source.get('optional'))).lower()}"


def _environment(container: Value, pod: Value | None) -> Iterator[str]:
    variables = container.get("env") or ()
    if not variables:
        yield "  Environment:\t<none>"
        return
    yield "  Environment:"
    for variable in variables:
        source = variable.get("valueFrom") or {}
        if ref := source.get("fieldRef"):
            text = f"{_field(pod, ref['fieldPath'])} ({ref.get('apiVersion', 'v1')}:{ref['fieldPath']})"
        elif ref := source.get("resourceFieldRef"):
            text = f"{_resource(container, ref['resource'])} ({ref['resource']})"
        elif ref := source.get("secretKeyRef"):
            text = f"<set to the key '{ref['key']}' in secret '{ref.get('name', '')}'>\t{_optional(ref)}"
        elif ref := source.get("configMapKeyRef"):
            text = f"<set to the key '{ref['key']}' of config map '{ref.get('name', '')}'>\t{_optional(ref)}"
        else:
            first, *rest = str(variable.get("value", "")).split("\n")
            yield f"    {variable['name']}:\t{first}"
            yield from (f"    \t{line}" for line in rest)
            continue
        yield f"    {variable['name']}:\t{text}"


def _field(pod: Value | None, path: str) -> str:
    """Return the value of a string field of the metadata; kubectl resolves no other fields."""
    part, _, name = path.partition(".")
    value = (pod or {}).get(part, {}).get(name) if part == "metadata" else None
    return value if isinstance(value, str) else ""


def _resource(container: Value, path: str) -> str:
    from sampan.api.quantity import parse

    part, _, name = path.partition(".")
    amount = ((container.get("resources") or {}).get(part) or {}).get(name)
    return str(parse(str(amount)).value()) if amount is not None else "0"


def _mounts(mounts: Sequence[Value]) -> Iterator[str]:
    if not mounts:
        yield "  Mounts:\t<none>"
        return
    yield "  Mounts:"
    for item in sorted(mounts, key=lambda mount: str(mount["mountPath"])):
        marks = [
            "ro" if item.get("readOnly") else "rw",
            *([f'path="{item["subPath"]}"'] if item.get("subPath") else []),
        ]
        yield f"    {item['mountPath']} from {item['name']} ({','.join(marks)})"


# -- volumes and placement -------------------------------------------------------------------------------------------


def volumes(pod_volumes: Sequence[Value], indent: str) -> Iterator[str]:
    if not pod_volumes:
        yield f"{indent}Volumes:\t<none>"
        return
    yield f"{indent}Volumes:"
    for volume in pod_volumes:
        yield f"{'   ' if indent else '  '}{volume['name']}:"
        yield from (f"  {line}" for line in _volume(volume))


def _volume(volume: Value) -> Iterator[str]:
    kind = next((name for name in volume if name != "name"), "emptyDir")
    source = volume.get(kind) or {}
    if kind not in _VOLUME_KINDS:
        yield f"  Type:\t{kind}"
        return
    yield f"  Type:\t{_VOLUME_KINDS[kind]}"
    if kind == "emptyDir":
        yield f"  Medium:\t{source.get('medium', '')}"
        yield f"  SizeLimit:\t{source.get('sizeLimit', '<unset>')}"
    elif kind == "hostPath":
        yield f"  Path:\t{source['path']}"
        yield f"  HostPathType:\t{source.get('type', '<none>')}"
    elif kind == "secret":
        yield f"  SecretName:\t{source.get('secretName', '')}"
        yield f"  Optional:\t{str(bool(source.get('optional'))).lower()}"
    elif kind == "configMap":
        yield f"  Name:\t{source.get('name', '')}"
        yield f"  Optional:\t{str(bool(source.get('optional'))).lower()}"
    elif kind == "persistentVolumeClaim":
        yield f"  ClaimName:\t{source['claimName']}"
        yield f"  ReadOnly:\t{str(bool(source.get('readOnly'))).lower()}"
    elif kind == "nfs":
        yield f"  Server:\t{source['server']}"
        yield f"  Path:\t{source['path']}"
        yield f"  ReadOnly:\t{str(bool(source.get('readOnly'))).lower()}"
    elif kind == "downwardAPI":
        yield "  Items:"
        for item in source.get("items") or ():
            if ref := item.get("fieldRef"):
                yield f"    {ref['fieldPath']} -> {item['path']}"
            if ref := item.get("resourceFieldRef"):
                yield f"    {ref['resource']} -> {item['path']}"
    else:
        yield from _projected(source.get("sources") or ())


def _projected(sources: Sequence[Value]) -> Iterator[str]:
    for projection in sources:
        if ref := projection.get("secret"):
            yield f"  SecretName:\t{ref.get('name', '')}"
            yield f"  SecretOptionalName:\t{optional_text(ref.get('optional'))}"
        elif "downwardAPI" in projection:
            yield "  DownwardAPI:\ttrue"
        elif ref := projection.get("configMap"):
            yield f"  ConfigMapName:\t{ref.get('name', '')}"
            yield f"  ConfigMapOptional:\t{optional_text(ref.get('optional'))}"
        elif ref := projection.get("serviceAccountToken"):
            yield f"  TokenExpirationSeconds:\t{ref.get('expirationSeconds', 3600)}"


def tolerations(entries: Sequence[Value]) -> list[str]:
    return [
        _toleration(toleration) for toleration in sorted(entries, key=lambda toleration: str(toleration.get("key", "")))
    ]


def _toleration(pod: Value) -> str:
    text = str(pod.get("key", ""))
    if pod.get("value"):
        text += f"={pod['value']}"
    if pod.get("effect"):
        text += f":{pod['effect']}"
    if pod.get("operator") == "Exists" and not pod.get("value"):
        text += " op=Exists" if pod.get("key") or pod.get("effect") else "op=Exists"
    if pod.get("tolerationSeconds") is not None:
        text += f" for {pod['tolerationSeconds']}s"
    return text
