"""`sampan gates`: the table of feature gates."""

import json
from typing import Any

from click.testing import CliRunner

from sampan.api.feature_gates import LEVEL, FeatureGates
from sampan.cli.main import cli


def run(*words: str) -> str:
    done = CliRunner().invoke(cli, ["gates", *words])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_table_has_the_gates_of_this_version() -> None:
    head, *rows = (line.split() for line in run().splitlines())
    assert head == ["NAME", "STAGE", "DEFAULT", "LOCKED", "SWITCHABLE"]
    assert [row[0] for row in rows] == [name for name, _ in FeatureGates().specs()]
    assert ["HostnameOverride", "GA", "on", "yes", "no"] in rows
    assert ["ClusterTrustBundle", "GA", "on", "no", "yes"] in rows


def test_other_versions_have_other_gates() -> None:
    rows = {line.split()[0]: line.split() for line in run("--kubernetes-version", "1.37").splitlines()}
    assert "SidecarContainers" not in rows
    assert rows["HPAScaleToZero"][1:3] == ["Beta", "on"]


def test_wide_table_has_the_history() -> None:
    assert "1.34 Alpha off, 1.35 Beta on, 1.37 GA on locked" in run("-o", "wide")
    history = "1.37 Beta off, 1.37 Beta on (minimal compatibility version 1.37)"
    assert history in run("-o", "wide", "--kubernetes-version", "1.37")


def test_json_has_one_object_per_gate() -> None:
    gates: list[dict[str, Any]] = json.loads(run("-o", "json"))
    assert len(gates) == len(list(FeatureGates(level=LEVEL).specs()))
    assert gates[0] == {
        "name": "APIResponseCompression",
        "stage": "Beta",
        "default": True,
        "locked": False,
        "switchable": False,
        "history": [{"version": "1.8", "state": "Alpha off"}, {"version": "1.16", "state": "Beta on"}],
    }


def test_unknown_version_is_rejected() -> None:
    done = CliRunner().invoke(cli, ["gates", "--kubernetes-version", "1.20"])
    assert done.exit_code == 2
    assert "--kubernetes-version" in done.stderr
