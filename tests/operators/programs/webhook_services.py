"""Services whose only endpoint is a program on this machine, so that webhooks are registered as their manifests say."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sampan.apiserver.server_address import find_default_route_address
from sampan.testing import Cluster

Object = dict[str, Any]

NEEDS_ADDRESS = pytest.mark.skipif(
    find_default_route_address().startswith("127."),
    reason="this machine has no address of its own but the loopback one",
)
"""Endpoints cannot have loopback addresses."""


def publish_service(cluster: Cluster, namespace: str, name: str, port: int, service_port: int = 443) -> None:
    """Create a service for a port of this machine."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"ports": [{"name": "https", "port": service_port}]},
    }
    slice_ = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": f"{name}-host", "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [find_default_route_address()]}],
        "ports": [{"name": "https", "port": port}],
    }
    cluster.apply([service, slice_], namespace=namespace)


def read_webhooks(paths: Iterable[Path], ca: bytes) -> Iterator[Object]:
    """Yield the webhook configurations in manifests, with a CA for all servers."""
    for path in paths:
        for configuration in yaml.safe_load_all(path.read_text()):
            for webhook in configuration["webhooks"]:
                webhook["clientConfig"]["caBundle"] = base64.b64encode(ca).decode()
            yield configuration
