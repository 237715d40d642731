"""Golden replays of recordings in which controllers take part, against a cluster with all controllers."""

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from sampan.testing import Cluster

SCENARIOS = (
    "delete-policies",
    "persistentvolumeclaims-basic",
    "persistentvolumes-basic",
    "poddisruptionbudgets-basic",
    "pods-binding-eviction",
    "storageclasses-basic",
)


@pytest.fixture(scope="module")
def golden(shared_dir: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("golden", shared_dir / "golden" / "golden.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(components=("apiserver", "controllers"), insecure=True) as cluster:
        yield cluster


@pytest.mark.parametrize("name", SCENARIOS)
def test_responses_match_the_recordings_of_a_real_server(
    name: str, golden: ModuleType, shared_dir: Path, cluster: Cluster
) -> None:
    directory = shared_dir / "golden"
    scenario = yaml.safe_load((directory / "scenarios" / f"{name}.yaml").read_text())
    expected = json.loads((directory / "recorded" / f"{name}.json").read_text())
    responses = golden.run(golden.Server(cluster.insecure_url, None, True), scenario, name)
    differences = [
        f"step {want['step']} {want['request']} {want['name']}: {line}"
        for want, got in zip(expected, responses, strict=True)
        for line in golden.differences(want, got)
    ]
    assert differences == []
