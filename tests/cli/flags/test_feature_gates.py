"""Feature gates: default values are accepted, other values only for gates that can be switched."""

import pytest

from sampan.cli.failures import CliError
from sampan.cli.flags.feature_gates import DEFAULTS, RUNTIME_CONFIG_GATES, feature_gates


def test_default_values_and_switchable_gates_are_accepted() -> None:
    text = "SidecarContainers=true,EventedPLEG=false,StorageVersionMigrator=true,AllAlpha=false"
    text += ",CRDObservedGenerationTracking=false,NativeHistograms=false"
    assert feature_gates(text) == {
        "CRDObservedGenerationTracking": False,
        "NativeHistograms": False,
        "SidecarContainers": True,
        "EventedPLEG": False,
        "StorageVersionMigrator": True,
        "AllAlpha": False,
    }
    assert feature_gates("") == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Nonsense=true", "--feature-gates: unrecognized feature gate: Nonsense"),
        ("SidecarContainers=false", "--feature-gates: SidecarContainers is always on in Sampan"),
        ("AllAlpha=true", "--feature-gates: AllAlpha is always off in Sampan"),
        ("SidecarContainers", "--feature-gates: want NAME=true or NAME=false"),
    ],
)
def test_unknown_gates_and_fixed_gates_with_other_values_are_rejected(text: str, message: str) -> None:
    with pytest.raises(CliError, match=message):
        feature_gates(text)


def test_switchable_gates_have_no_fixed_default() -> None:
    assert not RUNTIME_CONFIG_GATES & DEFAULTS.keys()
