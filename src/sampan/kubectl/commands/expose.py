"""`kubectl expose`: create a Service for the pods of a workload, pod or service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sampan.api.go_compat import gotext
from sampan.api.values import int_or_string
from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import arguments, string_flag
from sampan.kubectl.command_line.shared_flags import (
    FilenameOptions,
    dry_run_flag,
    dry_run_strategy,
    field_manager_flag,
    filename_flags,
    record_flag,
    save_config_flag,
)
from sampan.kubectl.errors import ErrorAggregate, KubectlError
from sampan.kubectl.objects.last_applied import with_last_applied
from sampan.kubectl.objects.object_writer import ObjectWriter, with_change_cause
from sampan.kubectl.objects.overrides import OverrideOptions, override_flags, with_overrides
from sampan.kubectl.objects.targets import (
    ResourceBuilder,
    ResourceFetch,
    ResourceInfo,
    ResourceSelection,
    ResourceSource,
)
from sampan.kubectl.printers import OutputOptions, output_flags
from sampan.kubectl.printers.results import ResultPrinter

_KINDS = {
    ("", "ReplicationController"),
    ("", "Service"),
    ("", "Pod"),
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
}
_MAX_NAME_LENGTH = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposeOptions:
    words: tuple[str, ...] = arguments()
    output: OutputOptions = output_flags()
    record: bool = record_flag()
    protocol: str = string_flag("--protocol", help="Protocol of the service. Default: that of the ports, or TCP.")
    port: str = string_flag("--port", help="Port of the service. Default: the ports of the object.")
    service_type: str = string_flag(
        "--type", help="Type of the service: ClusterIP, NodePort, LoadBalancer or ExternalName."
    )
    load_balancer_ip: str = string_flag(
        "--load-balancer-ip", metavar="IP", help="IP address to request for a LoadBalancer."
    )
    selector: str = string_flag("--selector", help="Labels of the pods. Default: the selector of the object.")
    labels: str = string_flag("-l", "--labels", help="Labels of the service. Default: those of the object.")
    target_port: str = string_flag("--target-port", help="Name or number of the containers' port. Default: --port.")
    external_ip: str = string_flag("--external-ip", metavar="IP", help="Further address at which nodes accept traffic.")
    service_name: str = string_flag("--name", metavar="NAME", help="Name of the service.")
    session_affinity: str = string_flag(
        "--session-affinity", metavar="None|ClientIP", help="Session affinity of the service."
    )
    cluster_ip: str = string_flag("--cluster-ip", metavar="IP", help="Cluster IP, or None for a headless service.")
    field_manager: str = field_manager_flag("kubectl-expose")
    overrides: OverrideOptions = override_flags()
    dry_run: str = dry_run_flag()
    save_config: bool = save_config_flag()
    files: FilenameOptions = filename_flags("to expose")


@KubectlCommand.define("expose", ExposeOptions)
def command(factory: Factory, options: ExposeOptions) -> None:
    """Create a service for a pod, service, replication controller, deployment or replica set."""
    dry_run = dry_run_strategy(options.dry_run)
    printer = ResultPrinter(options.output, dry_run)
    writer = ObjectWriter(session=factory.session, field_manager=options.field_manager, dry_run=dry_run)
    errors = ErrorAggregate()
    for info in ResourceBuilder(
        factory,
        ResourceSelection(words=options.words),
        ResourceSource(files=options.files),
        ResourceFetch(fetches_latest=False),
    ).infos(errors):
        with errors.collect():
            value = with_overrides(build_service(info, options), options.overrides)
            value = with_change_cause(value, options.record)
            if dry_run == "client":
                if factory.has_namespace_flag:
                    value["metadata"] = {**value["metadata"], "namespace": factory.namespace}
            else:
                value = with_last_applied(value) if options.save_config else value
                kind = factory.kinds.find_by_kind("v1", "Service")
                value = writer.create(ResourceInfo(kind, factory.namespace, value["metadata"]["name"]), value)
            printer.print(value, "exposed")
    errors.raise_any()


def build_service(info: ResourceInfo, options: ExposeOptions) -> dict[str, Any]:
    """Return the Service for an object, with selector, ports and labels from it where no flag says otherwise."""
    if (info.kind.group, info.kind.kind) not in _KINDS:
        kind = f"{info.kind.kind}.{info.kind.group}" if info.kind.group else info.kind.kind
        raise KubectlError(f"cannot expose a {kind}")
    selector = parse_label_text(options.selector) if options.selector else _selector_of(info)
    port_texts = [options.port] if options.port else _ports_of(info.value)
    if not port_texts and options.cluster_ip != "None":
        raise KubectlError("couldn't find port via --port flag or introspection")
    labels = options.labels
    own_labels = info.value["metadata"].get("labels") or {}
    service_labels = parse_label_text(labels) if labels else own_labels
    if not selector:
        raise KubectlError("selector must be specified")
    metadata: dict[str, Any] = {"name": options.service_name or info.name[:_MAX_NAME_LENGTH]}
    metadata |= {"labels": service_labels} if service_labels else {}
    ports = _service_ports(",".join(port_texts), _protocols_of(info.value), options)
    spec: dict[str, Any] = ({"ports": ports} if ports else {}) | {"selector": selector}
    return {
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": metadata,
        "spec": spec | _spec_of_flags(options),
        "status": {"loadBalancer": {}},
    }


def _spec_of_flags(options: ExposeOptions) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    if options.cluster_ip:
        spec["clusterIP"] = options.cluster_ip
    if options.service_type:
        spec["type"] = options.service_type
    if options.external_ip:
        spec["externalIPs"] = [options.external_ip]
    if options.service_type == "LoadBalancer" and options.load_balancer_ip:
        spec["loadBalancerIP"] = options.load_balancer_ip
    affinity = options.session_affinity
    if affinity not in ("", "None", "ClientIP"):
        raise KubectlError(f"unknown session affinity: {affinity}")
    return spec | ({"sessionAffinity": affinity} if affinity else {})


def _service_ports(text: str, protocols: dict[str, list[str]], options: ExposeOptions) -> list[dict[str, Any]]:
    ports: list[dict[str, Any]] = []
    texts = text.split(",") if text else []
    for number, port_text in enumerate(texts, 1):
        port = _parse_port(port_text)
        name = f"port-{number}" if len(texts) > 1 else ""
        exposed = [options.protocol] if options.protocol else protocols.get(port_text, ["TCP"])
        for protocol in exposed:
            port_name = f"port-{number}-{protocol.lower()}" if len(exposed) > 1 else name
            target = int_or_string.parse(options.target_port) if options.target_port else port
            fields: dict[str, Any] = {"name": port_name} if port_name else {}
            ports.append(fields | {"protocol": protocol, "port": port, "targetPort": target})
    return ports


def _parse_port(text: str) -> int:
    import re

    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        raise KubectlError(f"strconv.Atoi: parsing {gotext.quote(text)}: invalid syntax")
    return int(text)


def _selector_of(info: ResourceInfo) -> dict[str, str]:
    value, kind = info.value, info.kind.kind
    spec = value.get("spec") or {}
    failure = ""
    if kind == "Pod":
        selector = value["metadata"].get("labels") or {}
        failure = "" if selector else "the pod has no labels and cannot be exposed"
    elif kind in ("Service", "ReplicationController"):
        selector = spec.get("selector") or {}
        failure = "the service has no pod selector set" if kind == "Service" and not selector else ""
    else:
        label_selector = spec.get("selector") or {}
        selector = label_selector.get("matchLabels") or {}
        if not selector:
            failure = f"invalid {kind.lower()}: no selectors, therefore cannot be exposed"
        elif expressions := label_selector.get("matchExpressions"):
            shown = " ".join(
                f"{{Key:{part['key']} Operator:{part['operator']} Values:[{' '.join(part.get('values') or ())}]}}"
                for part in expressions
            )
            failure = f'couldn\'t convert expressions - "[{shown}]" to map-based selector format'
    if failure:
        raise KubectlError(f"couldn't retrieve selectors via --selector flag or introspection: {failure}")
    return dict(selector)


def _port_entries(value: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the ports and protocols of an object's containers, or of a Service."""
    spec = value.get("spec") or {}
    if value.get("kind") == "Service":
        return [(str(port["port"]), port.get("protocol") or "TCP") for port in spec.get("ports") or ()]
    pod_spec = spec if value.get("kind") == "Pod" else (spec.get("template") or {}).get("spec") or {}
    return [
        (str(port["containerPort"]), port.get("protocol") or "TCP")
        for container in pod_spec.get("containers") or ()
        for port in container.get("ports") or ()
    ]


def _ports_of(value: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(port for port, _ in _port_entries(value)))


def _protocols_of(value: dict[str, Any]) -> dict[str, list[str]]:
    protocols: dict[str, list[str]] = {}
    for port, protocol in _port_entries(value):
        if protocol not in protocols.setdefault(port, []):
            protocols[port].append(protocol)
    return protocols


def parse_label_text(text: str) -> dict[str, str]:
    """Parse labels of the form KEY=VALUE,KEY=VALUE."""
    labels: dict[str, str] = {}
    for part in text.split(","):
        pair = part.split("=")
        if len(pair) != 2:
            raise KubectlError(f"unexpected label spec: {part}")
        if not pair[0]:
            raise KubectlError("unexpected empty label key")
        labels[pair[0]] = pair[1]
    return labels
