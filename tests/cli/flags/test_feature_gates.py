"""Feature gates and versions: default values are accepted, other values only for gates that can be switched; what is
refused has the message of kube-apiserver."""

from typing import Any

import pytest

from sampan.api.feature_gates import IMPLEMENTED_GATES, LEVELS, FeatureGates, gate_dependencies
from sampan.cli.flags.feature_gates import effective_gates, feature_gates
from sampan.machinery.cli_errors import CliError


def gates_of(gates: str = "", emulated: tuple[str, ...] = (), compatible: tuple[str, ...] = ()) -> FeatureGates:
    options: dict[str, Any] = {"feature_gates": gates}
    return effective_gates({**options, "emulated_version": emulated, "min_compatibility_version": compatible})


def test_default_values_and_switchable_gates_are_accepted() -> None:
    text = "EventedPLEG=false,StorageVersionMigrator=true,AllAlpha=false"
    text += ",CRDObservedGenerationTracking=true,kube:NativeHistograms=true"
    gates = feature_gates(text)
    assert gates.settings == {
        "CRDObservedGenerationTracking": True,
        "NativeHistograms": True,
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
        ("SidecarContainers=true", "--feature-gates: unrecognized feature gate: SidecarContainers"),
        (
            "ImageVolume=false",
            "--feature-gates: cannot set feature gate ImageVolume to false, feature is locked to true",
        ),
        ("EnvFiles=false", "--feature-gates: EnvFiles is always on in Sampan, as it is by default in Kubernetes v1.37"),
        ("EventedPLEG=true", "--feature-gates: EventedPLEG is always off in Sampan"),
        ("AllBeta=false", "--feature-gates: AllBeta: APIResponseCompression is always on in Sampan"),
        ("ImageVolume", "--feature-gates: want NAME=true or NAME=false"),
        ("foo:ImageVolume=true", "--feature-gates: component not registered: foo"),
        (
            "CompositePodGroup=true",
            r"CompositePodGroup is enabled, but depends on features that are disabled: "
            r"\[GenericWorkload TopologyAwareWorkloadScheduling\]",
        ),
    ],
)
def test_unknown_gates_and_fixed_gates_with_other_values_are_rejected(text: str, message: str) -> None:
    with pytest.raises(CliError, match=message):
        feature_gates(text)


def test_gates_of_an_older_level() -> None:
    assert not gates_of(emulated=("kube=1.36",)).is_enabled("HPAScaleToZero")
    assert gates_of("HPAScaleToZero=true", ("1.36",)).is_enabled("HPAScaleToZero")
    message = "cannot set feature gate HPAGeneration to false, feature is PreAlpha at emulated version 1.36, min "
    with pytest.raises(CliError, match=message + "compatibility version 1.35"):
        gates_of("HPAGeneration=false", ("1.36",))


@pytest.mark.parametrize(
    ("emulated", "compatible", "levels"),
    [
        ((), (), (37, 36)),
        (("kube=1.36",), (), (36, 35)),
        (("v1.34",), (), (34, 34)),
        (("1.35",), ("kube=1.35",), (35, 35)),
        ((), ("1.34",), (37, 34)),
    ],
)
def test_versions(emulated: tuple[str, ...], compatible: tuple[str, ...], levels: tuple[int, int]) -> None:
    gates = gates_of("", emulated, compatible)
    assert (gates.level, gates.min_compatibility_level) == levels


@pytest.mark.parametrize(
    ("emulated", "compatible", "message"),
    [
        (
            ("kube=1.33",),
            (),
            "[emulation version 1.33 is not between [1.34, 1.37.0], "
            "minCompatibilityVersion version 1.34 is not between [1.34, 1.33]]",
        ),
        (("1.38",), (), "emulation version 1.38 is not between [1.34, 1.37.0]"),
        (("2.0",), (), "emulation version 2.0 is not between [1.34, 1.37.0]"),
        (("1.36.1",), (), "patch version not allowed, got: kube=1.36.1"),
        (("foo=1.36",), (), "component not registered: foo"),
        (("kube=1.36,kube=1.35",), (), "duplicate version flag, kube=1.36 and kube=1.35"),
        (("kube=1.36", "1.35"), (), "duplicate version flag, kube=1.36 and kube=1.35"),
        (("x",), (), 'could not parse "x" as version'),
        (("1",), (), 'illegal version string "1"'),
        ((), ("1.33",), "minCompatibilityVersion version 1.33 is not between [1.34, 1.37]"),
        ((), ("1.38",), "minCompatibilityVersion version 1.38 is not between [1.34, 1.37]"),
        (("1.35",), ("1.36",), "minCompatibilityVersion version 1.36 is not between [1.34, 1.35]"),
        (
            ("1.33",),
            ("1.32",),
            "[emulation version 1.33 is not between [1.34, 1.37.0], "
            "minCompatibilityVersion version 1.32 is not between [1.34, 1.33]]",
        ),
    ],
)
def test_refused_versions(emulated: tuple[str, ...], compatible: tuple[str, ...], message: str) -> None:
    with pytest.raises(CliError) as caught:
        gates_of("", emulated, compatible)
    flag = "--emulated-version" if not compatible or emulated == ("1.33",) else "--min-compatibility-version"
    assert str(caught.value) == f"{flag}: {message}"


def linked_gates(name: str, value: bool) -> set[str]:
    """Return the gates that must be set together with a gate: those that it needs, or those that need it."""
    if value:
        return {name, *gate_dependencies().get(name, ())}
    return {name, *(gate for gate, needs in gate_dependencies().items() if name in needs)}


def is_settable(name: str, value: bool) -> bool:
    """Tell whether Sampan implements a value of a gate: the gate is not locked, and all that must be set with it are
    implemented, too."""
    spec = FeatureGates().find_spec(name)
    return (spec is None or not spec.locked) and linked_gates(name, value) <= IMPLEMENTED_GATES.keys()


SETTABLE_VALUES = [
    (name, value) for name in sorted(IMPLEMENTED_GATES) for value in (True, False) if is_settable(name, value)
]


@pytest.mark.parametrize(("name", "value"), SETTABLE_VALUES)
def test_implemented_gates_accept_both_values(name: str, value: bool) -> None:
    settings = ",".join(f"{gate}={value}" for gate in linked_gates(name, value))
    assert feature_gates(settings).is_enabled(name) is value


def test_most_implemented_gates_can_be_set_to_both_values() -> None:
    assert len(SETTABLE_VALUES) > 1.7 * len(IMPLEMENTED_GATES)


@pytest.mark.parametrize("level", LEVELS)
def test_every_gate_accepts_its_default(level: int) -> None:
    for name, spec in FeatureGates(level=level).specs():
        if name != "AllBeta":  # false turns all beta gates off, although false is its default
            feature_gates(f"{name}={spec.default}", level=level)
