"""Functions that avoid comparing all pairs give the same results as comparisons of all pairs, up to their limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sampan.api import limits
from sampan.api.types.core_v1 import (
    ConfigMapVolumeSource,
    Container,
    ContainerPort,
    KeyToPath,
    PodSpec,
    Toleration,
    Volume,
    VolumeDevice,
    VolumeMount,
)
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.apiserver.admission.runtime_class import TolerationCover, merge_tolerations
from sampan.apiserver.registry.podspec.volumes.path_overlaps import overlap_warnings
from sampan.apiserver.registry.podspec.volumes.validation import validate_volume_devices, validate_volume_mounts
from sampan.apiserver.registry.podspec.warnings import warnings_for
from tests.input_cost import is_quick

PORTS = st.builds(
    ContainerPort,
    containerPort=st.sampled_from([80, 81]),
    protocol=st.sampled_from(["TCP", "UDP"]),
    hostPort=st.sampled_from([0, 0, 1, 2]),
    hostIP=st.sampled_from(["", "", "10.0.0.1", "10.0.0.2"]),
)


@given(st.lists(PORTS, max_size=20))
@settings(max_examples=200)
def test_port_warnings_equal_those_of_all_pairs(ports: list[ContainerPort]) -> None:
    spec = PodSpec(containers=[Container(name="c", image="x", ports=ports)])
    warnings = [text for text in warnings_for(spec, ObjectMeta()) if " port definition with " in text]
    expected = [
        f"spec.containers[0].ports[{i}]: {text} with spec.containers[0].ports[{j}]"
        for i in range(len(ports))
        for j in range(i)
        if (text := _clash(ports[i], ports[j]))
    ]
    assert warnings == expected[: limits.PAIR_WARNINGS]


def _clash(port: ContainerPort, other: ContainerPort) -> str:
    if (port.containerPort, port.protocol) != (other.containerPort, other.protocol):
        return ""
    if (port.hostIP, port.hostPort) == (other.hostIP, other.hostPort):
        return "duplicate port definition"
    if port.hostPort == 0 or other.hostPort == 0:
        return "overlapping port definition"
    is_ambiguous = port.hostPort == other.hostPort and bool(port.hostIP) != bool(other.hostIP)
    return "dangerously ambiguous port definition" if is_ambiguous else ""


@given(st.lists(st.text("ab/.", max_size=6), max_size=25))
@settings(max_examples=300)
def test_path_overlap_warnings_equal_those_of_all_pairs(paths: list[str]) -> None:
    items = [KeyToPath(key="k", path=path) for path in paths]
    volume = Volume(name="v", configMap=ConfigMapVolumeSource(name="m", items=items))
    warnings = [text.partition("overlapping paths: ")[2] for text in overlap_warnings([volume])]
    cut = [path.rstrip("/") for path in paths]
    expected = [
        f'"{cut[i]}" with "{cut[j]}"'
        for i in range(len(cut))
        for j in range(i)
        if cut[i] and cut[j] and (f"{cut[i]}/".startswith(f"{cut[j]}/") or f"{cut[j]}/".startswith(f"{cut[i]}/"))
    ]
    assert warnings == expected[: limits.PAIR_WARNINGS]


TOLERATIONS = st.builds(
    Toleration,
    key=st.sampled_from(["", "a", "b"]),
    operator=st.sampled_from(["", "Equal", "Exists", "Lt"]),
    value=st.sampled_from(["", "x"]),
    effect=st.sampled_from(["", "NoSchedule", "NoExecute"]),
    tolerationSeconds=st.sampled_from([None, None, 1, 5]),
)


def _covers(wide: Toleration, narrow: Toleration) -> bool:
    if wide == narrow:
        return True
    if narrow.key != wide.key and not (wide.key == "" and wide.operator == "Exists"):
        return False
    if wide.effect not in ("", narrow.effect):
        return False
    if wide.effect == "NoExecute" and wide.tolerationSeconds is not None:
        seconds = narrow.tolerationSeconds
        if seconds is None or seconds > wide.tolerationSeconds:
            return False
    if wide.operator in ("Equal", ""):
        return narrow.operator == "Equal" and narrow.value == wide.value
    return wide.operator == "Exists"


def _merge_pairwise(tolerations: Sequence[Toleration]) -> list[Any]:
    kept: list[Toleration] = []
    for index, toleration in enumerate(tolerations):
        later = [other for other in tolerations[index + 1 :] if other != toleration]
        if not any(_covers(other, toleration) for other in (*kept, *later)):
            kept.append(toleration)
    return kept


@given(st.lists(TOLERATIONS, max_size=12))
@settings(max_examples=500)
def test_merged_tolerations_equal_those_of_all_pairs(tolerations: list[Toleration]) -> None:
    assert merge_tolerations(tolerations) == _merge_pairwise(tolerations)


@given(st.lists(TOLERATIONS, max_size=8), TOLERATIONS)
@settings(max_examples=300)
def test_toleration_cover_equals_comparison_with_each_toleration(wide: list[Toleration], narrow: Toleration) -> None:
    assert TolerationCover(wide).covers(narrow) == any(_covers(toleration, narrow) for toleration in wide)


def test_mounts_and_devices_are_not_compared_in_pairs() -> None:
    mounts = [VolumeMount(name=f"m{number}", mountPath=f"/m{number}") for number in range(30_000)]
    devices = [VolumeDevice(name=f"d{number}", devicePath=f"/d{number}") for number in range(30_000)]
    container = Container(name="c", image="x", volumeMounts=mounts, volumeDevices=devices)

    def validate() -> None:
        for validated in (validate_volume_mounts, validate_volume_devices):
            assert len(list(validated(container, {}, "spec"))) == 30_000

    assert is_quick(validate, 2.0)  # all pairs take a minute
