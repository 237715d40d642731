"""The objects by which clients reach the Ingress controller: the Service of its servers, and its IngressClass.

The Service has the type LoadBalancer: the embedded load balancers give it an address, and report a conflict as an event
of the Service. It has no selector: the server of each node keeps the EndpointSlices of its node. With the external
traffic policy Local the address leads to a node with a server, and the server sees the address of the client.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sampan.api.types.core_v1 import Namespace, Service, ServicePort, ServiceSpec
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.networking_v1 import IngressClass, IngressClassSpec
from sampan.machinery import errors
from sampan.machinery.client import Client
from sampan.machinery.copies import copy_of
from sampan.machinery.object_key import NamespacedName
from sampan.network.server_publication import PublishedServer

log = logging.getLogger(__name__)

SERVICE: Final = NamespacedName("kube-system", "sampan-ingress")
INGRESS_CLASS: Final = "sampan"
CONTROLLER: Final = "sampan.io/ingress"
HTTP, HTTPS = "http", "https"
_DEFAULT_CLASS: Final = "ingressclass.kubernetes.io/is-default-class"
_CREATED: Final = "sampan.dev/ingress-class"
_MANAGER: Final = "ingress.sampan"
_LABELS: Final = {"app.kubernetes.io/name": "sampan-ingress"}


@dataclass(frozen=True, slots=True, kw_only=True)
class IngressConfig:
    http_port: int = 80
    https_port: int = 443
    """The HTTP and HTTPS ports of the Service."""


async def ensure_ingress_objects(client: Client, config: IngressConfig) -> None:
    """Create the service and the IngressClass, or adjust the ports of an existing service. Failures are only logged."""
    try:
        await _ensure_class(client)
        await _ensure_service(client, config)
    except errors.ApiError as error:
        log.error("cannot create the objects of the Ingress controller: %s", error)


async def _ensure_service(client: Client, config: IngressConfig) -> None:
    services = client.for_kind(Service)
    try:
        service = await services.get(SERVICE.name, SERVICE.namespace)
    except errors.NotFound:
        await services.create(ingress_service(config))
        return
    wanted_ports = {HTTP: config.http_port, HTTPS: config.https_port}
    if {port.name: port.port for port in service.spec.ports} != wanted_ports:
        service = copy_of(service)
        node_ports = {port.name: port.nodePort for port in service.spec.ports}
        service.spec.ports = ingress_service(config).spec.ports
        for port in service.spec.ports:
            port.nodePort = node_ports.get(port.name, 0)
        await services.update(service)


def ingress_service(config: IngressConfig) -> Service:
    return Service(
        metadata=ObjectMeta(name=SERVICE.name, namespace=SERVICE.namespace, labels=dict(_LABELS)),
        spec=ServiceSpec(
            type="LoadBalancer",
            externalTrafficPolicy="Local",
            ipFamilyPolicy="PreferDualStack",
            ports=[
                ServicePort(name=name, protocol="TCP", port=number, appProtocol=name)
                for name, number in ((HTTP, config.http_port), (HTTPS, config.https_port))
            ],
        ),
    )


async def _ensure_class(client: Client) -> None:
    """Create the IngressClass once in the life of a cluster, so that an administrator may delete or change it. It is
    the default class unless there is another one."""
    namespace = await client.for_kind(Namespace).get(SERVICE.namespace)
    if _CREATED in namespace.metadata.annotations:
        return
    classes = await client.for_kind(IngressClass).list()
    has_default = any(item.metadata.annotations.get(_DEFAULT_CLASS) == "true" for item in classes.items)
    metadata = ObjectMeta(name=INGRESS_CLASS, annotations={} if has_default else {_DEFAULT_CLASS: "true"})
    try:
        await client.for_kind(IngressClass).create(
            IngressClass(metadata=metadata, spec=IngressClassSpec(controller=CONTROLLER))
        )
    except errors.AlreadyExists:
        log.info("IngressClass %s exists", INGRESS_CLASS)
    await client.for_kind(Namespace).patch(SERVICE.namespace, {"metadata": {"annotations": {_CREATED: INGRESS_CLASS}}})


def describe_ingress_server(*, node: str, addresses: Sequence[str], http_port: int, https_port: int) -> PublishedServer:
    """Return the server of a node as its EndpointSlices describe it."""
    return PublishedServer(
        service=SERVICE,
        manager=_MANAGER,
        node=node,
        addresses=addresses,
        ports=[(HTTP, "TCP", http_port), (HTTPS, "TCP", https_port)],
        labels=_LABELS,
    )
