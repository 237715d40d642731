"""The example of a plugin works in a cluster, and the experiment gives the same table twice."""

import importlib
from pathlib import Path
from typing import Any

import pytest

from sampan.api.types.core_v1 import Pod
from sampan.api.types.events_v1 import Event
from sampan.machinery.client import Selection
from sampan.scheduler.config.config_file import parse_text
from sampan.testing import Cluster, builders
from tests.eventually import wait_until

EXAMPLE = Path(__file__).parents[2] / "examples" / "scheduler-plugin"


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))


def create(cluster: Cluster, name: str, noise: str) -> None:
    pod = builders.pod(name, namespace="default", labels={"noise": noise})
    cluster.run(cluster.client.for_kind(Pod).create(pod))


def node_of(cluster: Cluster, name: str) -> str:
    return cluster.run(cluster.client.for_kind(Pod).get(name, "default")).spec.nodeName


def wait_for_node(cluster: Cluster, name: str) -> str:
    wait_until(lambda: bool(node_of(cluster, name)))
    return node_of(cluster, name)


def test_example_plugin_has_less_than_40_lines() -> None:
    assert len((EXAMPLE / "quiet_neighbors.py").read_text().splitlines()) < 40


def test_plugin_separates_noisy_and_quiet_pods() -> None:
    config = parse_text((EXAMPLE / "config.yaml").read_text())
    with Cluster(nodes=2, scheduler=config) as cluster:
        create(cluster, "drums", "noisy")
        loud = wait_for_node(cluster, "drums")
        for name in ("trumpet", "bass"):
            create(cluster, name, "noisy")
            assert wait_for_node(cluster, name) == loud
        for name in ("reader", "sleeper"):
            create(cluster, name, "quiet")
            assert wait_for_node(cluster, name) != loud
        cluster.run(cluster.client.for_kind(Pod).delete("reader", "default"))
        pod = builders.pod("stubborn", namespace="default", labels={"noise": "quiet"})
        pod.spec.nodeSelector = {"kubernetes.io/hostname": loud}
        cluster.run(cluster.client.for_kind(Pod).create(pod))
        wait_until(lambda: "1 node(s) had noisy neighbors" in _failure(cluster, "stubborn"))


def _failure(cluster: Cluster, name: str) -> str:
    page: Any = cluster.run(cluster.client.for_kind(Event).list(Selection(namespace="default")))
    notes = [node.note for node in page.items if node.regarding.name == name and node.reason == "FailedScheduling"]
    return notes[-1] if notes else ""


def test_the_experiment_is_repeatable() -> None:
    compare = importlib.import_module("compare")
    first, again, other = (compare.table(seed, nodes=60, pods=300) for seed in (1, 1, 2))
    assert first == again != other
    (_, least, most) = (line.split() for line in first)
    assert (least[0], most[0]) == ("LeastAllocated", "MostAllocated")
    assert int(most[2]) > int(least[2]), "packing leaves more nodes empty"
