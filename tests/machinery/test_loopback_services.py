from __future__ import annotations

import pytest

from sampan.api.types.core_v1 import Service, ServicePort, ServiceSpec
from sampan.machinery.loopback_services import LoopbackServices, lowest_unprivileged_port


@pytest.mark.parametrize(
    ("cluster_ip", "address"),
    [
        ("10.96.0.10", "127.96.0.10"),
        ("10.0.0.1", "127.255.0.1"),
        ("172.20.3.4", "127.20.3.4"),
        ("127.96.0.10", "127.96.0.10"),
        ("fd00::10", ""),
        ("None", ""),
        ("", ""),
    ],
)
def test_loopback_address_of_a_cluster_ip(cluster_ip: str, address: str) -> None:
    assert LoopbackServices().address_of(cluster_ip) == address


def test_shift_changes_the_loopback_address() -> None:
    assert LoopbackServices(shift=1).address_of("10.96.0.10") == "127.97.0.10"
    assert LoopbackServices(shift=200).address_of("10.96.0.10") == "127.40.0.10"


def test_translate_replaces_cluster_ip_and_privileged_ports() -> None:
    service = Service(
        spec=ServiceSpec(
            clusterIP="fd00::10",
            clusterIPs=["fd00::10", "10.96.0.10"],
            ports=[ServicePort(port=80, name="http"), ServicePort(port=8080, name="alt")],
        )
    )
    translated = LoopbackServices().translate(service).spec
    assert (translated.clusterIP, [port.port for port in translated.ports]) == ("127.96.0.10", [10080, 8080])
    assert service.spec.ports[0].port == 80
    ipv6 = Service(spec=ServiceSpec(clusterIP="fd00::10", ports=[ServicePort(port=80)]))
    assert LoopbackServices().translate(ipv6) is ipv6


def test_lowest_unprivileged_port() -> None:
    assert lowest_unprivileged_port(is_privileged=True) == 0
    assert lowest_unprivileged_port(is_privileged=False) <= 1024
    assert LoopbackServices(lowest_port=0).port_of(80) == 80
