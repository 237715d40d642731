"""Feature gates: default values are accepted, other values only for gates that can be switched."""

import pytest

from sampan.api.feature_gates import FeatureGates
from sampan.cli.flags.feature_gates import RUNTIME_CONFIG_GATES, feature_gates
from sampan.machinery.cli_errors import CliError


def test_default_values_and_switchable_gates_are_accepted() -> None:
    text = "SidecarContainers=true,EventedPLEG=false,StorageVersionMigrator=true,AllAlpha=false"
    text += ",CRDObservedGenerationTracking=true,NativeHistograms=false"
    gates = feature_gates(text)
    assert gates.settings == {
        "CRDObservedGenerationTracking": True,
        "NativeHistograms": False,
        "SidecarContainers": True,
        "EventedPLEG": False,
        "StorageVersionMigrator": True,
        "AllAlpha": False,
    }
    assert gates.is_enabled("StorageVersionMigrator")
    assert feature_gates("") == FeatureGates()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Nonsense=true", "--feature-gates: unrecognized feature gate: Nonsense"),
        ("KubeletPSI=true,Nonsense=true", "--feature-gates: unrecognized feature gate: Nonsense"),
        (
            "SidecarContainers=false",
            "--feature-gates: cannot set feature gate SidecarContainers to false, feature is locked to true",
        ),
        (
            "HPAGeneration=true",
            "--feature-gates: cannot set feature gate HPAGeneration to true, feature is PreAlpha at emulated version "
            "1.36, min compatibility version 1.35",
        ),
        ("EnvFiles=false", "--feature-gates: EnvFiles is always on in Sampan, as it is by default in Kubernetes v1.36"),
        ("EventedPLEG=true", "--feature-gates: EventedPLEG is always off in Sampan"),
        ("AllAlpha=true", "--feature-gates: AllAlpha is always off in Sampan"),
        ("AllBeta=false", "--feature-gates: AllBeta: APIResponseCompression is always on in Sampan"),
        ("SidecarContainers", "--feature-gates: want NAME=true or NAME=false"),
    ],
)
def test_unknown_gates_and_fixed_gates_with_other_values_are_rejected(text: str, message: str) -> None:
    with pytest.raises(CliError, match=message):
        feature_gates(text)


@pytest.mark.parametrize("value", ["true", "false"])
def test_switchable_gates_accept_both_values(value: str) -> None:
    names = [name for name, _ in FeatureGates().specs() if name in RUNTIME_CONFIG_GATES]
    gates = feature_gates(",".join(f"{name}={value}" for name in names))
    assert {gates.is_enabled(name) for name in names} == {value == "true"}


def test_every_gate_accepts_its_default() -> None:
    for name, spec in FeatureGates().specs():
        if name != "AllBeta":  # false turns all beta gates off, although false is its default
            feature_gates(f"{name}={spec.default}")
