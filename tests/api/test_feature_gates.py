"""Feature gates: the table, and the values of gates at every level."""

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from sampan.api.feature_gates import (
    BLANKET_GATES,
    IMPLEMENTED_GATES,
    LEVEL,
    LEVELS,
    FeatureGateError,
    FeatureGates,
    gate_history,
)

CLIENT_GATES = {
    "AtomicFIFO",
    "ClientsAllowCARotation",
    "ClientsAllowCBOR",
    "ClientsAllowTLSCacheGC",
    "ClientsPreferCBOR",
    "InOrderInformers",
    "InOrderInformersBatchProcess",
    "InformerResourceVersion",
    "UnlockWhileProcessingFIFO",
    "WatchListClient",
}
"""The gates of client-go. The list that Kubernetes publishes has neither them nor AllAlpha and AllBeta."""


def test_table_is_up_to_date(repository: Path) -> None:
    check = [sys.executable, str(repository / "tools/feature_gates.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_specs_are_in_order() -> None:
    for name, specs in gate_history().items():
        order = [(spec.since, spec.min_compatibility) for spec in specs]
        assert order == sorted(set(order)), name
        assert all(spec.min_compatibility <= spec.since for spec in specs), name


@pytest.mark.parametrize(("level", "known", "on"), [(34, 162, 91), (35, 181, 106), (36, 206, 140), (37, 242, 171)])
def test_counts_are_those_of_kubernetes_at_each_emulated_version(level: int, known: int, on: int) -> None:
    """The counts are those with a minimal compatibility version that is the emulated one."""
    gates = FeatureGates(level=level, min_compatibility=level)
    later = dict(FeatureGates(level=max(LEVELS)).specs())
    listed = [name for name, _ in gates.specs() if name in later.keys() - CLIENT_GATES - set(BLANKET_GATES.values())]
    assert (len(listed), sum(map(gates.is_enabled, listed))) == (known, on)


def test_own_level_has_the_gates_of_the_released_version(reference_dir: Path) -> None:
    """The released list omits the gates of logging and metrics, which `tools/feature_gates.py` adds."""
    released = {name: specs[-1] for name, specs in read_reference(reference_dir).items()}
    gates = FeatureGates(min_compatibility=LEVEL)
    specs = {name: spec for name, spec in gates.specs() if name not in BLANKET_GATES.values()}
    assert specs.keys() - released.keys() == {
        *("ContextualLogging", "LoggingAlphaOptions", "LoggingBetaOptions", "NativeHistograms"),
    }
    assert released.keys() - specs.keys() == set()
    for name, published in released.items():
        spec = (specs[name].default, specs[name].stage, specs[name].locked)
        assert spec == (published["default"], published["stage"], published.get("locked", False)), name


def read_reference(directory: Path) -> dict[str, list[dict[str, Any]]]:
    gates: dict[str, list[dict[str, Any]]] = json.loads((directory / "feature-gates.json").read_text())
    return gates


@pytest.mark.parametrize("level", LEVELS)
def test_every_gate_accepts_exactly_the_values_of_its_spec(level: int) -> None:
    """The newest spec up to the level decides; specs with a minimal compatibility version need that one too."""
    for name, value, specs in gates_with_values(level):
        if gate_history()[name][-1].stage == "Removed":
            assert_rejected({name: value == "true"}, level, f"unrecognized feature gate: {name}")
        elif not specs:
            error = f"cannot set feature gate {name} to {value}, feature is PreAlpha at emulated version 1.{level}, "
            error += f"min compatibility version 1.{max(level - 1, LEVELS[0])}"
            assert_rejected({name: value == "true"}, level, error)
            assert not FeatureGates(level=level).is_enabled(name)
        elif specs[-1].get("locked") and specs[-1]["default"] != (value == "true"):
            locked = "true" if specs[-1]["default"] else "false"
            error = f"cannot set feature gate {name} to {value}, feature is locked to {locked}"
            assert_rejected({name: value == "true"}, level, error)
        else:
            assert FeatureGates({name: value == "true"}, level=level).is_enabled(name) is (value == "true")
            assert FeatureGates(level=level).is_enabled(name) is specs[-1]["default"]


def gates_with_values(level: int) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """Yield each gate and each value, with the specs that apply at the level."""
    data = Path(str(find_spec("sampan.api.feature_gates").origin)).with_name("data")  # type: ignore[union-attr]
    for name, specs in json.loads((data / "feature_gates.json").read_text()).items():
        applying = [spec for spec in specs if spec["since"] <= level and spec.get("min_compatibility", 0) <= level - 1]
        yield from ((name, value, applying) for value in ("true", "false"))


def assert_rejected(settings: dict[str, bool], level: int, message: str) -> None:
    with pytest.raises(FeatureGateError) as caught:
        FeatureGates(settings, level=level)
    assert str(caught.value) == message


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("value", [False, True])
@pytest.mark.parametrize("stage", BLANKET_GATES)
def test_blanket_gates_set_the_gates_of_their_stage(stage: str, value: bool, level: int) -> None:
    plain, gates = FeatureGates(level=level), FeatureGates({BLANKET_GATES[stage]: value}, level=level)
    for name, spec in gates.specs():
        if name in BLANKET_GATES.values():
            assert gates.is_enabled(name) is (value and name == BLANKET_GATES[stage])
        else:
            assert gates.is_enabled(name) is (value if spec.stage == stage else plain.is_enabled(name)), name


def test_gates_set_by_name_win_over_blanket_gates() -> None:
    gates = FeatureGates(
        {"AllBeta": False, "AllAlpha": True, "EnvFiles": True, "KubeletPSI": True, "EventedPLEG": False}
    )
    assert gates.is_enabled("EnvFiles")
    assert not gates.is_enabled("EventedPLEG")
    assert gates.is_enabled("WorkloadWithJob")
    assert not gates.is_enabled("APIServerIdentity")


def test_default_can_depend_on_the_minimal_compatibility_version() -> None:
    name = "DRAFractionalCapacityRange"
    assert not FeatureGates(level=37).is_enabled(name)
    assert FeatureGates(level=37, min_compatibility=37).is_enabled(name)
    assert not FeatureGates({name: False}, level=37, min_compatibility=37).is_enabled(name)


def test_removed_gates_do_not_come_back() -> None:
    """A program that no longer has a gate does not know it when it emulates a version that had it."""
    removed = {name for name, specs in gate_history().items() if specs[-1].stage == "Removed"}
    assert "SidecarContainers" in removed
    for level in LEVELS:
        assert removed & dict(FeatureGates(level=level).specs()).keys() == set()


def test_proxy_gate_of_a_deprecated_mode_exists_at_all_levels() -> None:
    stages = [FeatureGates(level=level).find_spec("KubeProxyIPVS") for level in LEVELS]
    assert [spec.stage for spec in stages if spec is not None and spec.default] == ["GA", "GA", "GA", "Deprecated"]


def test_several_errors_are_joined() -> None:
    settings = {"ImageVolume": False, "HPAGeneration": True}
    message = (
        "[cannot set feature gate HPAGeneration to true, feature is PreAlpha at emulated version 1.36, "
        "min compatibility version 1.35, cannot set feature gate ImageVolume to false, feature is locked to true]"
    )
    assert_rejected(settings, 36, message)
    assert_rejected({**settings, "Nonsense": True}, 36, "unrecognized feature gate: Nonsense")


def test_unknown_gates_cannot_be_queried() -> None:
    with pytest.raises(KeyError):
        FeatureGates().is_enabled("Nonsense")


def test_implemented_gates_are_named_in_the_module_of_their_feature() -> None:
    for name, module in IMPLEMENTED_GATES.items():
        spec = find_spec(module)
        assert spec is not None
        assert spec.origin is not None
        assert name in Path(spec.origin).read_text(), f"{module} does not name {name}"
        assert name in gate_history()
