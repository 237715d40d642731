from __future__ import annotations

import os

import pytest

from sampan.runtimes.contract import ContainerUsage, InterfaceCounters
from sampan.runtimes.usage import CpuRates, parse_interfaces, pod_usage


def test_cpu_rate_is_computed_since_the_last_sample() -> None:
    rates = CpuRates()
    assert rates.rate("a", 5.0, 100.0) == 0
    assert rates.rate("a", 6.0, 110.0) == pytest.approx(0.1)
    assert rates.rate("a", 16.0, 115.0) == pytest.approx(2.0)


def test_sample_in_quick_succession_keeps_the_previous_cpu_rate() -> None:
    rates = CpuRates()
    rates.rate("a", 5.0, 100.0)
    rates.rate("a", 6.0, 110.0)
    assert rates.rate("a", 6.01, 110.0001) == pytest.approx(0.1)
    assert rates.rate("a", 6.5, 111.0) == pytest.approx(0.5)


def test_clock_that_is_set_back_keeps_the_previous_cpu_rate() -> None:
    rates = CpuRates()
    rates.rate("a", 5.0, 100.0)
    rates.rate("a", 6.0, 110.0)
    assert rates.rate("a", 7.0, 50.0) == pytest.approx(0.1)
    assert rates.rate("a", 8.0, 52.0) == pytest.approx(0.5)


def test_cpu_rate_of_a_restarted_container_starts_at_zero() -> None:
    rates = CpuRates()
    rates.rate("a", 5.0, 100.0)
    assert rates.rate("a", 1.0, 110.0) == 0


def test_first_cpu_rate_is_the_average_since_the_start() -> None:
    assert CpuRates().rate("a", 5.0, 100.0, started_at=90.0) == pytest.approx(0.5)


def test_network_interfaces_are_parsed() -> None:
    text = "Inter-|   Receive\n lo: 1 0 0 0 0 0 0 0 2 0 0 0 0 0 0 0\n eth0: 5 2 1 3 0 0 0 0 7 4 2 6 0 0 0 0\n"
    assert parse_interfaces(text) == [
        InterfaceCounters(
            name="eth0",
            received=5,
            received_packets=2,
            receive_errors=1,
            receive_dropped=3,
            sent=7,
            sent_packets=4,
            send_errors=2,
            send_dropped=6,
        )
    ]


def test_pod_usage_has_the_traffic_of_its_network_namespace() -> None:
    containers = [ContainerUsage(name=name, cpu_cores=0.5, memory_bytes=10, processes=2) for name in ("a", "b")]
    whole = pod_usage(containers, pid=os.getpid(), extra_processes=1)
    assert (whole.name, whole.cpu_cores, whole.memory_bytes, whole.processes) == ("", 1.0, 20, 5)
    assert whole.received_bytes == sum(interface.received for interface in whole.interfaces)
    assert pod_usage(containers, pid=0).received_bytes is None
