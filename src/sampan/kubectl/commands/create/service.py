"""`kubectl create service`: Services of type ClusterIP, NodePort, LoadBalancer and ExternalName."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import click

from sampan.api import names
from sampan.api.go_compat import gotext
from sampan.kubectl.command_line.command import KubectlCommand, KubectlGroup
from sampan.kubectl.command_line.flag_parser import STRING_SLICE
from sampan.kubectl.command_line.shared_options import Decorator
from sampan.kubectl.commands.create.generator import generator_command, metadata
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


def _service_command(name: str, type: str, *options: Decorator) -> KubectlCommand:
    tcp = click.option(
        "--tcp", multiple=True, type=STRING_SLICE, metavar="PORT:TARGET", help="Port and target port; repeatable."
    )
    return generator_command(
        name, *options, tcp, help=f"Create a service of type {type}.", failure=f"failed to create {type} service:"
    )(lambda object_name, namespace, **flags: service(object_name, namespace, type=type, **flags))


command = KubectlGroup(
    "service",
    aliases=("svc",),
    help="Create a service of a type.",
    commands=[
        _service_command(
            "clusterip",
            "ClusterIP",
            click.option("--clusterip", "cluster_ip", default="", metavar="IP", help="Cluster IP; None for headless."),
        ),
        _service_command(
            "nodeport",
            "NodePort",
            click.option("--node-port", type=click.INT, default=0, help="Port on each node; 0 for any free one."),
        ),
        _service_command("loadbalancer", "LoadBalancer"),
        _service_command(
            "externalname",
            "ExternalName",
            click.option("--external-name", default="", required=True, metavar="DNS", help="DNS name of the service."),
        ),
    ],
)
