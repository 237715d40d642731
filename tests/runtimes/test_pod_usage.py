"""The usage of a whole pod, summed from its containers."""

from __future__ import annotations

import os

from sampan.runtimes.contract import Usage
from sampan.runtimes.pod_usage import network_bytes, pod_usage


def test_network_bytes() -> None:
    head = "Inter-|   Receive\n face |bytes\n"
    row = "  {}: 10 0 0 0 0 0 0 0 20 0 0 0 0 0 0 0\n"
    assert network_bytes(head + row.format("lo")) is None
    assert network_bytes(head + row.format("lo") + row.format("eth0")) == (10, 20)


def test_pod_usage_has_the_traffic_of_its_network_namespace() -> None:
    containers = [Usage(name=name, cpu_cores=0.5, memory_bytes=10, processes=2) for name in ("a", "b")]
    whole = pod_usage(containers, pid=os.getpid(), extra_processes=1)
    assert (whole.name, whole.cpu_cores, whole.memory_bytes, whole.processes) == ("", 1.0, 20, 5)
    assert whole.received_bytes is not None
    assert pod_usage(containers, pid=0).received_bytes is None
