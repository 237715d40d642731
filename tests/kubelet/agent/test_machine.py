"""The capacity of a machine, and its allocatable resources."""

import os
from pathlib import Path

import pytest

from sampan.api.values.quantity import parse
from sampan.kubelet.agent import machine
from sampan.kubelet.agent.machine import allocatable, capacity, find_machine_addresses, read_facts, threshold_value


def test_machine_facts_and_capacity(tmp_path: Path) -> None:
    facts = read_facts(tmp_path)
    assert facts.cores == os.cpu_count()
    assert facts.memory_bytes == machine.memory_total() > 1 << 20
    assert facts.info.kernelVersion == os.uname().release
    assert facts.info.kubeletVersion.startswith("v1.")
    amounts = capacity(facts, max_pods=110)
    assert amounts["cpu"] == str(os.cpu_count())
    assert amounts["pods"] == "110"
    assert parse(amounts["ephemeral-storage"]).value() == facts.disk_bytes
    assert not amounts["ephemeral-storage"].endswith("i")
    assert capacity(facts, max_pods=110, pods_per_core=1)["pods"] == str(min(110, facts.cores))


@pytest.mark.parametrize(
    ("reserved", "hard", "expected"),
    [
        ({}, {}, {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "100Gi", "pods": "110"}),
        ({"cpu": "500m"}, {}, {"cpu": "3500m", "memory": "8Gi", "ephemeral-storage": "100Gi", "pods": "110"}),
        ({"cpu": "1"}, {}, {"cpu": "3", "memory": "8Gi", "ephemeral-storage": "100Gi", "pods": "110"}),
        (
            {"memory": "1Gi"},
            {"memory.available": "100Mi", "nodefs.available": "10%"},
            {"cpu": "4", "memory": "7237632Ki", "ephemeral-storage": str(90 << 30), "pods": "110"},
        ),
    ],
)
def test_allocatable(reserved: dict[str, str], hard: dict[str, str], expected: dict[str, str]) -> None:
    whole = {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "100Gi", "pods": "110"}
    assert allocatable(whole, (reserved, {}), hard) == expected


def test_threshold_value_of_quantities_and_percentages() -> None:
    assert threshold_value("100Mi", 0) == 100 << 20
    assert threshold_value("10%", 1000) == 100


def test_own_addresses_are_found() -> None:
    assert find_machine_addresses()
