"""Builders of Services, EndpointSlices and record tables, and queries to a responder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import dns.message
import dns.rcode

from sampan.api.types.core_v1 import Service, ServicePort, ServiceSpec
from sampan.api.types.discovery_v1 import Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.machinery.object_key import key_of
from sampan.machinery.telemetry.metrics import Histogram
from sampan.network.dns.config import ZoneConfig
from sampan.network.dns.record_table import SERVICE_NAME_LABEL, RecordTable
from sampan.network.dns.records import service_records, slice_records
from sampan.network.dns.responder import DnsTransport, ForwardDecision, Responder

HTTP = (("http", "TCP", 80),)


def service(
    name: str,
    *cluster_ips: str,
    namespace: str = "default",
    ports: Iterable[tuple[str, str, int]] = HTTP,
    external_name: str = "",
    publishes_not_ready: bool = False,
) -> Service:
    """Build a service with cluster IPs; "None" makes it headless."""
    return Service(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=ServiceSpec(
            type="ExternalName" if external_name else "ClusterIP",
            externalName=external_name,
            clusterIP=cluster_ips[0] if cluster_ips else "",
            clusterIPs=list(cluster_ips),
            ports=[ServicePort(name=name, protocol=protocol, port=port) for name, protocol, port in ports],
            publishNotReadyAddresses=publishes_not_ready,
        ),
    )


def endpoint(address: str, hostname: str | None = None, is_ready: bool | None = True) -> Endpoint:
    return Endpoint(addresses=[address], hostname=hostname, conditions=EndpointConditions(ready=is_ready))


def endpoint_slice(
    service: str,
    *endpoints: Endpoint,
    name: str = "",
    namespace: str = "default",
    family: str = "IPv4",
    ports: Iterable[tuple[str, str, int]] = HTTP,
) -> EndpointSlice:
    return EndpointSlice(
        metadata=ObjectMeta(
            name=name or f"{service}-{family.lower()}", namespace=namespace, labels={SERVICE_NAME_LABEL: service}
        ),
        addressType=family,
        endpoints=list(endpoints),
        ports=[EndpointPort(name=name, protocol=protocol, port=port) for name, protocol, port in ports],
    )


def record_table(
    services: Mapping[str, tuple[Service, Sequence[EndpointSlice]]] | Iterable[tuple[Service, Sequence[EndpointSlice]]],
    namespaces: Iterable[str] = ("default", "kube-system"),
) -> RecordTable:
    """Build a table from scratch."""
    table = RecordTable(zone=ZoneConfig(), serial=1)
    for namespace in namespaces:
        table.add_namespace(namespace)
    for item, slices in services.values() if isinstance(services, Mapping) else services:
        publishes = item.spec.publishNotReadyAddresses
        parts = [slice_records(endpoint_slice, publishes_not_ready=publishes) for endpoint_slice in slices]
        records = service_records(item, [part for part in parts if part is not None], table.zone)
        table.set_service(key_of(item), records)
    return table


def responder_of(table: RecordTable, *, is_synced: bool = True) -> Responder:
    responder = Responder(table=table, is_synced=lambda: is_synced, on_probe=lambda name: False)
    if is_synced:
        responder.use_table()
    return responder


def transport(protocol: str = "udp") -> DnsTransport:
    return DnsTransport(protocol=protocol, family="1", durations=Histogram((1.0,)))


def ask(
    responder: Responder, name: str, type: str = "A", *, protocol: str = "udp", **options: object
) -> dns.message.Message:
    """Return the response to a query, which must not be forwarded."""
    query = dns.message.make_query(name, type, **options)
    result = responder.respond(query.to_wire(), transport(protocol))
    assert result is not None
    assert not isinstance(result, ForwardDecision), f"{name} is forwarded"
    message = dns.message.from_wire(result)
    assert query.is_response(message)
    return message


def answer_texts(message: dns.message.Message) -> list[str]:
    """Return the sorted records of the answer section as text, or the rcode of an error."""
    if message.rcode() != dns.rcode.NOERROR:
        return [dns.rcode.to_text(message.rcode())]
    return sorted(f"{item.rdtype.name} {rdata.to_text()}" for item in message.answer for rdata in item)
