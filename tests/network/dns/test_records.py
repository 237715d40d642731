"""The records of the Kubernetes DNS specification, example by example."""

from __future__ import annotations

import pytest

from sampan.api.limits import SERVICE_SRV_RECORDS
from sampan.network.dns.config import ZoneConfig
from sampan.network.dns.record_table import RecordTable
from sampan.network.dns.records import (
    ServiceRecords,
    format_address_label,
    pod_address,
    reverse_name,
    service_records,
    slice_records,
)
from sampan.network.dns.wire import SRV, RecordSet, name_bytes
from tests.input_cost import is_quick
from tests.network.dns.objects import answer_texts, ask, endpoint, endpoint_slice, record_table, responder_of, service

ZONE = "cluster.local"
NX, NODATA = ["NXDOMAIN"], list[str]()
DNS_PORTS = (("dns", "UDP", 53), ("dns-tcp", "TCP", 53))


@pytest.mark.parametrize("number", [-1, 0, 65536])
def test_invalid_endpoint_port_has_no_srv_record(number: int) -> None:
    hostile = endpoint_slice("web", endpoint("10.0.0.1"), ports=[("a", "TCP", number), ("b", "TCP", 80)])
    table = record_table([(service("web", "None"), [hostile])])
    assert answer_texts(ask(responder_of(table), f"web.default.svc.{ZONE}", "A")) == ["A 10.0.0.1"]
    assert answer_texts(ask(responder_of(table), f"_a._tcp.web.default.svc.{ZONE}", "SRV")) == NX


@pytest.fixture(scope="module")
def table() -> RecordTable:
    kubernetes = service("kubernetes", "10.96.0.1", ports=[("https", "TCP", 443)])
    kube_dns = service("kube-dns", "10.96.0.10", "fd00::a", namespace="kube-system", ports=DNS_PORTS)
    headless = service("headless", "None")
    slices = [
        endpoint_slice(
            "headless",
            endpoint("10.0.0.1", "my-pet"),
            endpoint("10.0.0.2", is_ready=None),
            endpoint("10.0.0.3", is_ready=False),
            ports=[("http", "TCP", 8080), ("", "UDP", 9)],
        ),
        endpoint_slice("headless", endpoint("fd01::1", "my-pet"), family="IPv6"),
        endpoint_slice("headless", endpoint("example.com"), family="FQDN"),
    ]
    starting = service("starting", "None", publishes_not_ready=True)
    return record_table(
        [
            (kubernetes, []),
            (kube_dns, []),
            (headless, slices),
            (service("empty", "None"), [endpoint_slice("empty", endpoint("10.0.0.9", is_ready=False))]),
            (service("portless", "None", ports=[]), [endpoint_slice("portless", endpoint("10.0.0.8"), ports=[])]),
            (starting, [endpoint_slice("starting", endpoint("10.0.0.7", is_ready=False))]),
            (service("unnamed", "10.96.0.7", ports=[("", "TCP", 80)]), []),
            (service("named", "10.96.0.8"), [endpoint_slice("named", endpoint("10.0.1.1", "db-0"))]),
            (service("local-alias", external_name="kubernetes.default.svc.cluster.local"), []),
            (service("second-alias", external_name="Local-Alias.default.svc.cluster.local"), []),
            (service("headless-alias", external_name="headless.default.svc.cluster.local"), []),
            (service("pod-alias", external_name="10-1-2-3.default.pod.cluster.local"), []),
            (service("lost-alias", external_name="nothing.default.svc.cluster.local"), []),
            (service("circle", external_name="circle.default.svc.cluster.local"), []),
            (service("address", external_name="10.1.2.3"), []),
            (service("long-label", external_name="a" * 70 + ".example.com"), []),
            (service("1kubernetes", "10.96.0.9"), []),
        ]
    )


CASES = [
    # 2.2 the version of the specification
    ("dns-version", "TXT", ['TXT "1.1.0"']),
    # 2.3 services with a cluster IP
    ("kubernetes.default.svc", "A", ["A 10.96.0.1"]),
    ("KUBERNETES.Default.sVc", "A", ["A 10.96.0.1"]),
    ("kubernetes.default.svc", "AAAA", NODATA),
    ("kube-dns.kube-system.svc", "A", ["A 10.96.0.10"]),
    ("kube-dns.kube-system.svc", "AAAA", ["AAAA fd00::a"]),
    ("_https._tcp.kubernetes.default.svc", "SRV", ["SRV 0 100 443 kubernetes.default.svc.cluster.local."]),
    ("_dns._udp.kube-dns.kube-system.svc", "SRV", ["SRV 0 100 53 kube-dns.kube-system.svc.cluster.local."]),
    ("_dns._tcp.kube-dns.kube-system.svc", "SRV", NX),
    ("_tcp.kube-dns.kube-system.svc", "SRV", NODATA),
    ("_https._tcp.kubernetes.default.svc", "A", NODATA),
    ("kubernetes.default.svc", "SRV", ["SRV 0 100 443 kubernetes.default.svc.cluster.local."]),
    ("unnamed.default.svc", "A", ["A 10.96.0.7"]),
    ("_._tcp.unnamed.default.svc", "SRV", NX),
    ("db-0.named.default.svc", "A", ["A 10.0.1.1"]),
    ("1kubernetes.default.svc", "A", ["A 10.96.0.9"]),
    # 2.4 headless services
    ("headless.default.svc", "A", ["A 10.0.0.1", "A 10.0.0.2"]),
    ("headless.default.svc", "AAAA", ["AAAA fd01::1"]),
    ("my-pet.headless.default.svc", "A", ["A 10.0.0.1"]),
    ("my-pet.headless.default.svc", "AAAA", ["AAAA fd01::1"]),
    ("10-0-0-2.headless.default.svc", "A", ["A 10.0.0.2"]),
    ("10-0-0-1.headless.default.svc", "A", NX),
    ("10-0-0-3.headless.default.svc", "A", NX),
    (
        "_http._tcp.headless.default.svc",
        "SRV",
        [
            "SRV 0 100 80 my-pet.headless.default.svc.cluster.local.",
            "SRV 0 100 8080 10-0-0-2.headless.default.svc.cluster.local.",
            "SRV 0 100 8080 my-pet.headless.default.svc.cluster.local.",
        ],
    ),
    ("empty.default.svc", "A", NX),
    ("portless.default.svc", "A", ["A 10.0.0.8"]),
    ("portless.default.svc", "SRV", NODATA),
    ("starting.default.svc", "A", ["A 10.0.0.7"]),
    # 2.5 external names
    ("local-alias.default.svc", "CNAME", ["CNAME kubernetes.default.svc.cluster.local."]),
    ("local-alias.default.svc", "A", ["A 10.96.0.1", "CNAME kubernetes.default.svc.cluster.local."]),
    ("local-alias.default.svc", "AAAA", ["CNAME kubernetes.default.svc.cluster.local."]),
    (
        "second-alias.default.svc",
        "A",
        [
            "A 10.96.0.1",
            "CNAME kubernetes.default.svc.cluster.local.",
            "CNAME local-alias.default.svc.cluster.local.",
        ],
    ),
    (
        "headless-alias.default.svc",
        "A",
        ["A 10.0.0.1", "A 10.0.0.2", "CNAME headless.default.svc.cluster.local."],
    ),
    ("pod-alias.default.svc", "A", ["A 10.1.2.3", "CNAME 10-1-2-3.default.pod.cluster.local."]),
    ("lost-alias.default.svc", "A", NX),
    ("circle.default.svc", "A", ["SERVFAIL"]),
    ("address.default.svc", "A", NX),
    ("long-label.default.svc", "A", NX),
    # pods
    ("10-1-2-3.default.pod", "A", ["A 10.1.2.3"]),
    ("10-1-2-3.default.pod", "AAAA", NODATA),
    ("fd00--1.default.pod", "AAAA", ["AAAA fd00::1"]),
    ("10-1-2-300.default.pod", "A", NX),
    ("10-1-2-3.nowhere.pod", "A", NX),
    ("name.default.pod", "A", NX),
    ("a.10-1-2-3.default.pod", "A", NX),
    # names that exist without records, and names that do not exist
    ("default.svc", "A", NODATA),
    ("default.pod", "A", NODATA),
    ("svc", "A", NODATA),
    ("pod", "A", NODATA),
    ("nowhere.svc", "A", NX),
    ("nothing.default.svc", "A", NX),
    ("google.com.default.svc", "A", NX),
    ("google.com", "A", NX),
    ("kubernetes.default", "A", NX),
]


@pytest.mark.parametrize(("name", "type", "expected"), CASES, ids=lambda value: str(value)[:50])
def test_specification(table: RecordTable, name: str, type: str, expected: list[str]) -> None:
    for protocol in ("udp", "tcp"):
        assert (
            answer_texts(ask(responder_of(table), f"{name}.{ZONE}.", type, protocol=protocol, use_edns=0)) == expected
        )
    message = ask(responder_of(table), f"{name}.{ZONE}", type)
    assert answer_texts(message) == expected
    is_negative = not any(rrset.rdtype.name == type for rrset in message.answer)
    if is_negative and expected != ["SERVFAIL"]:
        (soa,) = message.authority
        assert soa.name.to_text() == f"{ZONE}."
        assert (soa.ttl, soa[0].minimum) == (5, 5)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("10.96.0.1", ["PTR kubernetes.default.svc.cluster.local."]),
        ("fd00::a", ["PTR kube-dns.kube-system.svc.cluster.local."]),
        ("10.0.0.1", ["PTR my-pet.headless.default.svc.cluster.local."]),
        ("fd01::1", ["PTR my-pet.headless.default.svc.cluster.local."]),
        ("10.0.0.2", ["PTR 10-0-0-2.headless.default.svc.cluster.local."]),
        ("10.0.1.1", None),
    ],
)
def test_reverse_names(table: RecordTable, address: str, expected: list[str] | None) -> None:
    import dns.reversename

    name = dns.reversename.from_address(address).to_text()
    if expected is None:
        with pytest.raises(AssertionError, match="forwarded"):
            ask(responder_of(table), name, "PTR")
    else:
        assert answer_texts(ask(responder_of(table), name, "PTR")) == expected


def test_zone_has_soa_and_name_server(table: RecordTable) -> None:
    assert answer_texts(ask(responder_of(table), ZONE, "NS")) == ["NS kube-dns.kube-system.svc.cluster.local."]
    assert answer_texts(ask(responder_of(table), ZONE, "SOA"))[0].startswith(
        "SOA kube-dns.kube-system.svc.cluster.local."
    )
    assert answer_texts(ask(responder_of(table), ZONE, "A")) == NODATA


def test_srv_responses_have_the_addresses_of_their_targets(table: RecordTable) -> None:
    message = ask(responder_of(table), f"_http._tcp.headless.default.svc.{ZONE}", "SRV", use_edns=0, payload=1232)
    additional = sorted(f"{item.name} {rdata}" for item in message.additional for rdata in item)
    assert additional == [
        "10-0-0-2.headless.default.svc.cluster.local. 10.0.0.2",
        "my-pet.headless.default.svc.cluster.local. 10.0.0.1",
        "my-pet.headless.default.svc.cluster.local. fd01::1",
    ]


def test_addresses_as_labels() -> None:
    assert format_address_label("fd00::1") == "fd00--1"
    assert pod_address(b"fd00--1") == bytes.fromhex("fd00" + "0" * 27 + "1")
    assert pod_address(b"10-0-0") is None
    assert pod_address(b"\xff") is None
    assert reverse_name(bytes([10, 0, 0, 1])) == name_bytes("1.0.0.10.in-addr.arpa")


def test_srv_records_of_a_large_headless_service_are_bounded() -> None:
    ports = [(f"p{number}", "TCP", number) for number in range(1, 1001)]
    slices = [
        endpoint_slice("web", *(endpoint(f"10.0.{part}.{number}") for number in range(100)), ports=ports)
        for part in range(5)
    ]
    hostile = service("web", "None", ports=ports)
    parts = [part for item in slices if (part := slice_records(item, publishes_not_ready=False)) is not None]

    def records() -> ServiceRecords:
        return service_records(hostile, parts, ZoneConfig())

    assert is_quick(records)
    counts = [int.from_bytes(types[SRV].counts[:2], "big") for types in records().names.values() if SRV in types]
    assert SERVICE_SRV_RECORDS < sum(counts) <= 2 * SERVICE_SRV_RECORDS


def test_record_set_is_limited_to_8192_records() -> None:
    assert RecordSet(answer_records=[bytes(16)] * 70_000).counts[:2] == (8192).to_bytes(2, "big")
