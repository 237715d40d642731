"""`kubectl create service`: Services of type ClusterIP, NodePort, LoadBalancer and ExternalName."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sampan.api import names
from sampan.api.go_compat import gotext
from sampan.kubectl.command import KubectlCommand, KubectlGroup
from sampan.kubectl.command_line.flags import int_flag, string_flag, string_slice_flag
from sampan.kubectl.commands.create.generator import (
    CreationOptions,
    NameOptions,
    T,
    creation_flags,
    generator_command,
    metadata,
    pure,
)
from sampan.machinery.cli_errors import CliError


def service(
    name: str,
    namespace: str = "",
    *,
    type: str,
    tcp: Sequence[str] = (),
    cluster_ip: str = "",
    node_port: int = 0,
    external_name: str = "",
) -> dict[str, Any]:
    """Return a Service whose selector is app=NAME."""
    if cluster_ip != "None" and not tcp and type != "ExternalName":
        raise CliError("at least one tcp port specifier must be provided")
    if type == "ExternalName" and names.dns1123_subdomain(external_name):
        raise CliError(f"invalid service external name {external_name}")
    spec: dict[str, Any] = {}
    if tcp:
        spec["ports"] = [_service_port(pair, node_port) for pair in tcp]
    spec["selector"] = {"app": name}
    if cluster_ip:
        spec["clusterIP"] = cluster_ip
    spec["type"] = type
    if external_name:
        spec["externalName"] = external_name
    return {
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": metadata(name, namespace, labels={"app": name}),
        "spec": spec,
        "status": {"loadBalancer": {}},
    }


def _service_port(pair: str, node_port: int) -> dict[str, Any]:
    port, target = parse_port_pair(pair)
    fields = {"name": pair.replace(":", "-"), "protocol": "TCP", "port": port, "targetPort": target}
    return fields | ({"nodePort": node_port} if node_port else {})


def parse_port_pair(pair: str) -> tuple[int, int | str]:
    """Parse PORT or PORT:TARGET, where the target is a number or the name of a container's port."""
    port_text, *targets = pair.split(":")
    port = _parse_uint16(port_text)
    if not targets:
        return port, port
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", targets[0]):
        errors, target = names.port_name(targets[0]), targets[0]
        if errors:
            raise CliError(",".join(errors))
        return port, target
    if errors := names.port_number(int(targets[0])):
        raise CliError(",".join(errors))
    return port, int(targets[0])


def _parse_uint16(text: str) -> int:
    if not re.fullmatch("[0-9]+", text):
        raise CliError(f"strconv.ParseUint: parsing {gotext.quote(text)}: invalid syntax")
    if len(text) > 18 or int(text) > 65535:
        raise CliError(f"strconv.ParseUint: parsing {gotext.quote(text)}: value out of range")
    return int(text)


def _tcp_flag() -> tuple[str, ...]:
    return string_slice_flag("--tcp", metavar="PORT:TARGET", help="Port and target port; repeatable.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterIpOptions(NameOptions):
    cluster_ip: str = string_flag("--clusterip", metavar="IP", help="Cluster IP; None for headless.")
    tcp: tuple[str, ...] = _tcp_flag()
    creation: CreationOptions = creation_flags()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePortOptions(NameOptions):
    node_port: int = int_flag("--node-port", default=0, help="Port on each node; 0 for any free one.")
    tcp: tuple[str, ...] = _tcp_flag()
    creation: CreationOptions = creation_flags()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBalancerOptions(NameOptions):
    tcp: tuple[str, ...] = _tcp_flag()
    creation: CreationOptions = creation_flags()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalNameOptions(NameOptions):
    external_name: str = string_flag("--external-name", required=True, metavar="DNS", help="DNS name of the service.")
    tcp: tuple[str, ...] = _tcp_flag()
    creation: CreationOptions = creation_flags()


def _service_command(
    type: str, options_type: type[T], generate: Callable[[str, str, T], dict[str, Any]]
) -> KubectlCommand:
    return generator_command(
        type.lower(),
        options_type,
        pure(generate),
        help=f"Create a service of type {type}.",
        failure=f"failed to create {type} service:",
    )


command = KubectlGroup(
    "service",
    aliases=("svc",),
    help="Create a service of a type.",
    commands=[
        _service_command(
            "ClusterIP",
            ClusterIpOptions,
            lambda name, namespace, options: service(
                name, namespace, type="ClusterIP", tcp=options.tcp, cluster_ip=options.cluster_ip
            ),
        ),
        _service_command(
            "NodePort",
            NodePortOptions,
            lambda name, namespace, options: service(
                name, namespace, type="NodePort", tcp=options.tcp, node_port=options.node_port
            ),
        ),
        _service_command(
            "LoadBalancer",
            LoadBalancerOptions,
            lambda name, namespace, options: service(name, namespace, type="LoadBalancer", tcp=options.tcp),
        ),
        _service_command(
            "ExternalName",
            ExternalNameOptions,
            lambda name, namespace, options: service(
                name, namespace, type="ExternalName", tcp=options.tcp, external_name=options.external_name
            ),
        ),
    ],
)
