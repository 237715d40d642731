from __future__ import annotations

import os

import pytest

from sampan.runtimes.contract import ContainerUsage
from sampan.runtimes.usage import CpuRates, network_bytes, pod_usage


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


def test_network_bytes() -> None:
    head = "Inter-|   Receive\n face |bytes\n"
    row = "  {}: 10 0 0 0 0 0 0 0 20 0 0 0 0 0 0 0\n"
    assert network_bytes(head + row.format("lo")) is None
    assert network_bytes(head + row.format("lo") + row.format("eth0")) == (10, 20)


def test_pod_usage_has_the_traffic_of_its_network_namespace() -> None:
    containers = [ContainerUsage(name=name, cpu_cores=0.5, memory_bytes=10, processes=2) for name in ("a", "b")]
    whole = pod_usage(containers, pid=os.getpid(), extra_processes=1)
    assert (whole.name, whole.cpu_cores, whole.memory_bytes, whole.processes) == ("", 1.0, 20, 5)
    assert whole.received_bytes is not None
    assert pod_usage(containers, pid=0).received_bytes is None
