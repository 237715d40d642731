"""The records of services, as the Kubernetes DNS specification 1.1.0 and CoreDNS define them: pure functions of
Services and EndpointSlices.

| object | records |
|---|---|
| service with cluster IPs | A and AAAA, SRV for its ports, PTR |
| headless service | A and AAAA of its ready endpoints, one name per endpoint, SRV for its ports, PTR per endpoint |
| ExternalName service | CNAME |

The SRV records of a named port are at `_port._protocol.service`, those of all ports also at the name of the service. An
endpoint is named by its hostname, or else by its address with dashes.
"""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sampan.api.addresses import is_address
from sampan.api.limits import SERVICE_SRV_RECORDS
from sampan.api.semantics.endpoint_slices import numbered_ports
from sampan.api.types.core_v1 import Service
from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.host.bounded_cache import BoundedCache
from sampan.network.dns.config import ZoneConfig
from sampan.network.dns.wire import (
    AAAA,
    CNAME,
    IN,
    NS,
    PTR,
    SOA,
    SRV,
    TXT,
    A,
    MalformedMessage,
    RecordSet,
    labels_bytes,
    name_bytes,
    record,
    soa_data,
    srv_data,
    txt_data,
)

SPECIFICATION_VERSION = "1.1.0"
_MAX_ADDITIONAL = 50
"""The largest number of SRV records whose addresses are added to the response."""

CLUSTER_IP_RANK, HOSTNAME_RANK, DASHED_RANK = 0, 1, 2
"""The precedence of PTR records for the same address: only those with the lowest rank are served."""


@dataclass(frozen=True, slots=True)
class ServicePortRecord:
    """A port as SRV records show it."""

    name: str
    protocol: str
    port: int


@dataclass(frozen=True, slots=True)
class SliceRecords:
    """The addresses and ports that one EndpointSlice contributes to the records of its service."""

    type: int
    """A or AAAA."""
    addresses: Mapping[str, bytes]
    """The published addresses and their bytes by label: an endpoint that has no hostname has a dashed address."""
    hostnames: Mapping[str, Sequence[bytes]]
    """Addresses of endpoints with a hostname."""
    ports: Sequence[ServicePortRecord]


Names = Mapping[bytes, Mapping[int, RecordSet]]
"""Record sets by lower-cased name in wire format and by type."""


@dataclass(frozen=True, slots=True)
class ServiceRecords:
    """All records of one service."""

    names: Names = field(default_factory=dict)
    pointers: Mapping[bytes, tuple[int, Sequence[bytes]]] = field(default_factory=dict)
    """Names that addresses point to, by reverse name, with their rank."""


def slice_records(endpoint_slice: EndpointSlice, *, publishes_not_ready: bool) -> SliceRecords | None:
    """Return the published endpoints of a slice, or None if its addresses are names."""
    if endpoint_slice.addressType not in ("IPv4", "IPv6"):
        return None
    addresses: dict[str, bytes] = {}
    hostnames: defaultdict[str, list[bytes]] = defaultdict(list)
    for endpoint in endpoint_slice.endpoints or ():
        if endpoint.conditions.ready is False and not publishes_not_ready:
            continue
        for address in endpoint.addresses or ():
            try:
                packed = pack_address(address)
            except ValueError:
                continue
            if endpoint.hostname:
                hostnames[endpoint.hostname.lower()].append(packed)
            else:
                addresses[format_address_label(address)] = packed
    ports = [
        ServicePortRecord(port.name or "", (port.protocol or "TCP").lower(), number)
        for port, number in numbered_ports(endpoint_slice)
    ]
    return SliceRecords(A if endpoint_slice.addressType == "IPv4" else AAAA, addresses, dict(hostnames), ports)


def service_records(service: Service, slices: Iterable[SliceRecords], zone: ZoneConfig) -> ServiceRecords:
    """Return the records of a service with these slices. A service whose names are not valid in DNS has no records."""
    metadata, spec = service.metadata, service.spec
    try:
        name = _prepend_label(_services_domains[metadata.namespace, zone.domain], metadata.name)
        if spec.type == "ExternalName":
            return _external_name_records(name, spec.externalName, zone)
        if spec.clusterIP == "None":
            return _headless_records(name, slices, zone)
        return _cluster_ip_records(name, service, slices, zone)
    except MalformedMessage:  # the API server accepts external names with labels that DNS does not allow
        return ServiceRecords()


def _external_name_records(name: bytes, target: str, zone: ZoneConfig) -> ServiceRecords:
    if not target or is_address(target):
        return ServiceRecords()
    return ServiceRecords({name: {CNAME: RecordSet(answer_records=[record(CNAME, zone.ttl_s, name_bytes(target))])}})


def _cluster_ip_records(
    name: bytes, service: Service, slices: Iterable[SliceRecords], zone: ZoneConfig
) -> ServiceRecords:
    cluster_ips = service.spec.clusterIPs or [service.spec.clusterIP]
    addresses = [ipaddress.ip_address(address) for address in cluster_ips if is_address(address)]
    if not addresses:
        return ServiceRecords()
    packed = [(A if address.version == 4 else AAAA, address.packed) for address in addresses]
    names = {name: _address_sets(packed, zone)}
    additional = [record(type, zone.ttl_s, data, name) for type, data in packed]
    targets: defaultdict[bytes, dict[bytes, None]] = defaultdict(dict)
    for port in service.spec.ports:
        data = record(SRV, zone.ttl_s, srv_data(port.port, name))
        for owner in _srv_names(name, port.name, (port.protocol or "TCP").lower()):
            targets[owner][data] = None
    for owner, records in targets.items():
        names.setdefault(owner, {})[SRV] = RecordSet(answer_records=records, additional=additional)
    for label, endpoint_addresses in _hostnames(slices).items():
        names[_prepend_label(name, label)] = _address_sets(endpoint_addresses, zone)
    return ServiceRecords(names, {reverse_name(data): (CLUSTER_IP_RANK, (name,)) for _, data in packed})


def _headless_records(name: bytes, slices: Iterable[SliceRecords], zone: ZoneConfig) -> ServiceRecords:
    slices = list(slices)
    endpoints = _hostnames(slices)
    pointers = {
        reverse_name(data): (HOSTNAME_RANK, (_prepend_label(name, label),))
        for label, addresses in endpoints.items()
        for _, data in addresses
    }
    for part in slices:
        for label, data in part.addresses.items():
            endpoints.setdefault(label, {})[part.type, data] = None
            pointers.setdefault(reverse_name(data), (DASHED_RANK, (_prepend_label(name, label),)))
    if not endpoints:
        return ServiceRecords()
    everything = {address: None for addresses in endpoints.values() for address in addresses}
    names = {_prepend_label(name, label): _address_sets(addresses, zone) for label, addresses in endpoints.items()}
    names[name] = _address_sets(everything, zone)
    for owner, records in _headless_srv(name, slices, zone).items():
        names.setdefault(owner, {})[SRV] = records
    return ServiceRecords(names, pointers)


def _headless_srv(name: bytes, slices: Sequence[SliceRecords], zone: ZoneConfig) -> dict[bytes, RecordSet]:
    """Return the SRV records of each name. The ports of a slice are left out from the first one that would exceed the
    limit on."""
    remaining = SERVICE_SRV_RECORDS
    srv_records: defaultdict[bytes, dict[bytes, None]] = defaultdict(dict)
    additional: defaultdict[bytes, dict[bytes, None]] = defaultdict(dict)
    for part in slices:
        labels = {**{label: [data] for label, data in part.addresses.items()}, **part.hostnames}
        targets = [(_prepend_label(name, label), addresses) for label, addresses in labels.items()]
        for port in part.ports:
            remaining -= len(targets)
            if remaining < 0:
                break
            owners = _srv_names(name, port.name, port.protocol)
            for target, addresses in targets:
                srv = record(SRV, zone.ttl_s, srv_data(port.port, target))
                extra = [record(part.type, zone.ttl_s, data, target) for data in addresses]
                for owner in owners:
                    srv_records[owner][srv] = None
                    additional[owner].update(dict.fromkeys(extra))
    return {
        owner: RecordSet(
            answer_records=records, additional=additional[owner] if len(records) <= _MAX_ADDITIONAL else ()
        )
        for owner, records in srv_records.items()
    }


def _hostnames(slices: Iterable[SliceRecords]) -> dict[str, dict[tuple[int, bytes], None]]:
    """Return the addresses of the endpoints with hostnames, each once, in order."""
    merged: dict[str, dict[tuple[int, bytes], None]] = {}
    for part in slices:
        for label, addresses in part.hostnames.items():
            merged.setdefault(label, {}).update(dict.fromkeys((part.type, data) for data in addresses))
    return merged


def _address_sets(addresses: Iterable[tuple[int, bytes]], zone: ZoneConfig) -> dict[int, RecordSet]:
    by_type: defaultdict[int, list[bytes]] = defaultdict(list)
    for type, data in addresses:
        by_type[type].append(record(type, zone.ttl_s, data))
    return {type: RecordSet(answer_records=records) for type, records in by_type.items()}


def _srv_names(name: bytes, port: str, protocol: str) -> list[bytes]:
    """Return the names with the SRV records of a port: that of the service, and the one of a named port."""
    if not port or len(port) > 62:
        return [name]
    try:
        return [name, _prepend_label(_prepend_label(name, f"_{protocol}"), f"_{port.lower()}")]
    except MalformedMessage:
        return [name]


# -- records of the zone itself --------------------------------------------------------------------------------------


def zone_records(zone: ZoneConfig, *, serial: int) -> tuple[Names, bytes]:
    """Return the records of the zone, and its SOA record as the authority section of negative responses has it."""
    server = _prepend_label(_services_domains["kube-system", zone.domain], "kube-dns")
    soa = soa_data(
        name_server=server,
        mailbox=_prepend_label(zone.name, "hostmaster"),
        serial=serial,
        negative_ttl_s=zone.negative_ttl_s,
    )
    apex = {
        SOA: RecordSet(answer_records=[record(SOA, zone.ttl_s, soa)]),
        NS: RecordSet(answer_records=[record(NS, zone.ttl_s, server)]),
    }
    version = {TXT: RecordSet(answer_records=[record(TXT, zone.ttl_s, txt_data(SPECIFICATION_VERSION))])}
    names = {zone.name: apex, _prepend_label(zone.name, "dns-version"): version}
    return names, record(SOA, zone.negative_ttl_s, soa, owner=zone.name)


def namespace_names(namespace: str, zone: ZoneConfig) -> tuple[bytes, bytes]:
    """Return the names that exist, without records, because the namespace exists."""
    return _services_domains[namespace, zone.domain], _prepend_label(_prepend_label(zone.name, "pod"), namespace)


def pod_address(label: bytes) -> bytes | None:
    """Return the address that the first label of a pod name stands for, or None if it is not an address.

    CoreDNS calls this the insecure mode: any address is a pod name, whether or not there is such a pod.
    """
    text = label.decode("ascii", "replace")
    try:
        if text.count("-") == 3 and "--" not in text:
            return ipaddress.IPv4Address(text.replace("-", ".")).packed
        return ipaddress.IPv6Address(text.replace("-", ":")).packed
    except ValueError:
        return None


def pointer_set(targets: Iterable[bytes], zone: ZoneConfig) -> RecordSet:
    return RecordSet(answer_records=[record(PTR, zone.ttl_s, target) for target in targets])


# -- addresses and names ---------------------------------------------------------------------------------------------


def reverse_name(packed: bytes) -> bytes:
    """Return the name below in-addr.arpa or ip6.arpa that belongs to an address."""
    if len(packed) == 4:
        return labels_bytes([*(str(byte).encode() for byte in reversed(packed)), b"in-addr", b"arpa"])
    nibbles = packed.hex()[::-1].encode()
    return labels_bytes([*(nibbles[place : place + 1] for place in range(32)), b"ip6", b"arpa"])


def pack_address(address: str) -> bytes:
    return ipaddress.ip_address(address).packed


def format_address_label(address: str) -> str:
    return address.lower().replace(".", "-").replace(":", "-")


def record_key(name: bytes, type: int) -> bytes:
    """Return the key of a record set: the lower-cased question."""
    return name + type.to_bytes(2, "big") + IN


def _encode_services_domain(zone: tuple[str, str]) -> bytes:
    namespace, domain = zone
    return name_bytes(f"{namespace}.svc.{domain}")


_services_domains = BoundedCache(_encode_services_domain, max_entries=4096)
"""The DNS names below which services are, by namespace and cluster domain."""


def _prepend_label(name: bytes, label: str) -> bytes:
    """Return the DNS name one label below another. Names of services and endpoints always fit, as their labels are
    checked when they are written."""
    encoded = label.lower().encode()
    if not 0 < len(encoded) < 64 or len(encoded) + 1 + len(name) > 255:
        raise MalformedMessage(f"{label!r} is no label of a DNS name")
    return bytes((len(encoded),)) + encoded + name
