"""At each level, Sampan has the API versions, storage versions, gates and version numbers of kube-apiserver v1.37 that
emulates the level."""

import json
from pathlib import Path
from typing import Any

import pytest

from sampan.api.feature_gates import BLANKET_GATES, LEVELS, FeatureGates
from sampan.api.kubernetes_version import MAJOR
from sampan.api.resources.discovery import api_resources
from sampan.api.scheme import builtin_scheme
from sampan.machinery.telemetry.build_info import info


def read_level(reference_dir: Path, level: int) -> dict[str, Any]:
    levels: dict[str, dict[str, Any]] = json.loads((reference_dir / "emulated-levels.json").read_text())
    return levels[f"{MAJOR}.{level}"]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("mode", "config"), [("default", {}), ("all", {"api/all": True})])
def test_served_and_stored_versions(reference_dir: Path, mode: str, config: dict[str, bool], level: int) -> None:
    scheme = builtin_scheme(config, FeatureGates(level=level))
    served = {
        f"{group}/{version}".lstrip("/"): {
            entry.name: entry.storageVersionHash for entry in api_resources(scheme.resources(group, version))
        }
        for group in scheme.groups()
        for version in scheme.versions(group)
    }
    assert served == read_level(reference_dir, level)[mode]


@pytest.mark.parametrize("level", LEVELS)
def test_versions_of_the_server(reference_dir: Path, level: int) -> None:
    gates, expected = FeatureGates(level=level), read_level(reference_dir, level)
    document = info(gates.level, gates.min_compatibility_level)
    assert {name: getattr(document, name) for name in expected["version"]} == expected["version"]
    assert f"{MAJOR}.{level}" == expected["info"]


@pytest.mark.parametrize("level", LEVELS)
def test_gates_of_the_server(reference_dir: Path, level: int) -> None:
    """Sampan has the gates of all components, kube-apiserver only those that it links."""
    gates, expected = FeatureGates(level=level), read_level(reference_dir, level)["gates"]
    stages = {
        name: f"{'' if spec.stage == 'GA' else spec.stage.upper()} {int(gates.is_enabled(name))}"
        for name, spec in gates.specs()
    }
    assert {name: stages.get(name) for name in expected} == expected
    assert not set(BLANKET_GATES.values()) - stages.keys()
