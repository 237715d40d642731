"""Sub-paths, read-only mounts, propagation and environment files of a container's volume mounts."""

import os
from pathlib import Path
from typing import Any

import pytest

from sampan.api import limits
from sampan.api.types.core_v1 import VolumeMount
from sampan.kubelet.volumes.container_mounts import env_file_value, is_recursive, propagation, resolve_subpath
from sampan.runtimes.contract import RuntimeFailure
from sampan.runtimes.safe_paths import UnsafePath


@pytest.mark.parametrize(
    ("mount", "variables", "outcome"),
    [
        ({"subPath": "a/b"}, {}, "a/b"),
        ({"subPathExpr": "$(POD)/x"}, {"POD": "p"}, "p/x"),
        ({"subPathExpr": "$$(POD)"}, {}, "$(POD)"),
        ({"subPathExpr": "$(B)-$(A)"}, {}, RuntimeFailure("", "missing value for A, B")),
        (
            {"subPathExpr": "$(A)"},
            {"A": "/etc"},
            RuntimeFailure("", "error SubPath `/etc` must not be an absolute path"),
        ),
        (
            {"subPathExpr": "$(A)"},
            {"A": "../x"},
            RuntimeFailure("", "unable to provision SubPath `../x`: must not contain '..'"),
        ),
    ],
)
def test_a_subpath_is_expanded_and_stays_in_the_volume(
    mount: dict[str, Any], variables: dict[str, str], outcome: object
) -> None:
    volume_mount = VolumeMount(name="v", mountPath="/v", **mount)
    if isinstance(outcome, RuntimeFailure):
        with pytest.raises(RuntimeFailure) as failure:
            resolve_subpath(volume_mount, variables)
        assert (failure.value.reason, failure.value.message) == ("CreateContainerConfigError", outcome.message)
    else:
        assert resolve_subpath(volume_mount, variables) == outcome


def test_recursive_read_only_needs_a_read_only_mount_and_runtime_support() -> None:
    def mount(**fields: Any) -> VolumeMount:
        return VolumeMount(name="v", mountPath="/v", **fields)

    assert not is_recursive(mount(readOnly=True), True)
    assert is_recursive(mount(readOnly=True, recursiveReadOnly="IfPossible"), True)
    assert not is_recursive(mount(readOnly=True, recursiveReadOnly="IfPossible"), False)
    for faulty, message in [
        (mount(readOnly=True, recursiveReadOnly="Enabled"), "not supported by the runtime"),
        (mount(recursiveReadOnly="Enabled"), "is not read-only"),
        (mount(readOnly=True, recursiveReadOnly="Enabled", mountPropagation="HostToContainer"), "not compatible"),
    ]:
        with pytest.raises(RuntimeFailure, match=message):
            is_recursive(faulty, False)


def test_mount_propagation_modes() -> None:
    assert [propagation(mode) for mode in (None, "None", "HostToContainer", "Bidirectional")] == [
        "private",
        "private",
        "rslave",
        "rshared",
    ]


def test_values_of_an_environment_file(tmp_path: Path) -> None:
    (tmp_path / "env").write_text("# no\nA=1\nB='two words'\n\nC = x=y\n")
    assert [env_file_value(tmp_path, "env", key) for key in "ABCD"] == ["1", "two words", "x=y", None]
    assert env_file_value(tmp_path, "../x", "A") is None
    assert env_file_value(tmp_path, "none", "A") is None


@pytest.mark.parametrize("kind", ["pipe", "directory", "huge", "circle"])
def test_environment_file_that_is_not_a_small_regular_file_is_rejected(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "env"
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "directory":
        file.mkdir()
    elif kind == "huge":
        file.write_bytes(b"A=1\n" * (limits.ENV_FILE_BYTES // 4 + 1))
    else:
        file.symlink_to("env")
    with pytest.raises(UnsafePath, match="env"):
        env_file_value(tmp_path, "env", "A")


def test_an_environment_file_may_be_a_link_within_the_volume_only(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("A=outside\n")
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "real").write_text("A=inside\n")
    for name, target in {"in": "/real", "up": "../secret", "out": str(tmp_path / "secret")}.items():
        (volume / name).symlink_to(target)
    assert [env_file_value(volume, name, "A") for name in ("in", "up", "out")] == ["inside", None, None]
