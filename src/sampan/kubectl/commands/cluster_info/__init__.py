"""`kubectl cluster-info`: show the addresses of the control plane and of its services."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlGroup
from sampan.kubectl.command_line.shared_flags import NoOptions
from sampan.kubectl.commands.cluster_info import dump

_HINT = "\nTo further debug and diagnose cluster problems, use 'kubectl cluster-info dump'."


@KubectlGroup.define("cluster-info", NoOptions)
def command(factory: Factory, options: NoOptions) -> None:
    """Show the addresses of the control plane and of services with the label kubernetes.io/cluster-service."""
    server = factory.session.access.server.rstrip("/")
    namespace = factory.options.namespace or "kube-system"
    query = {"labelSelector": "kubernetes.io/cluster-service=true"}
    try:
        services = factory.session.get(f"/api/v1/namespaces/{namespace}/services", query).get("items") or ()
    except click.ClickException:
        click.echo(_HINT)
        raise
    click.echo(f"Kubernetes control plane is running at {server}")
    for service in services:
        metadata = service["metadata"]
        name = (metadata.get("labels") or {}).get("kubernetes.io/name") or metadata["name"]
        click.echo(f"{name} is running at {_link(server, service)}")
    click.echo(_HINT)


def _link(server: str, service: Mapping[str, Any]) -> str:
    metadata, ports = service["metadata"], (service.get("spec") or {}).get("ports") or ()
    points = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    if points:
        address = points[0].get("ip") or points[0].get("hostname", "")
        return "".join(f"http://{address}:{port['port']} " for port in ports)
    name = str(metadata["name"])
    if ports:
        port = ports[0]
        scheme = "https" if port.get("name") == "https" or port.get("port") == 443 else ""
        name = f"{scheme}:{name}:{port.get('name', '')}" if scheme or port.get("name") else name
        name = name.removeprefix(":") if not scheme else name
    return f"{server}/api/v1/namespaces/{metadata['namespace']}/services/{name}/proxy"


command.add_command(dump.command)

__all__ = ["command"]
