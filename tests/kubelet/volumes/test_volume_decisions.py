"""What is decided without looking at anything but what is given."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api import limits
from sampan.api.codec import json
from sampan.api.types.core_v1 import (
    EmptyDirVolumeSource,
    ISCSIVolumeSource,
    Node,
    Pod,
    VolumeMount,
)
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.storage_v1 import CSIDriver, CSINodeDriver
from sampan.kubelet.volumes.container_mounts import chosen_subpath, env_file_value, is_recursive, propagation
from sampan.kubelet.volumes.contract import VolumeOperationError, VolumeSpec
from sampan.kubelet.volumes.csi.client import NodeInfo
from sampan.kubelet.volumes.csi.conversions import applies_fs_group
from sampan.kubelet.volumes.csi.plugin import load
from sampan.kubelet.volumes.csi.registration import node_metadata_patch, updated_drivers, validation_error
from sampan.kubelet.volumes.plugins import host_path, iscsi
from sampan.kubelet.volumes.plugins.api_objects import nested_mount_points
from sampan.kubelet.volumes.plugins.empty_dir import memory_size, page_size
from sampan.kubelet.volumes.plugins.projected import joined_certificates, pod_user
from sampan.kubelet.volumes.volume_host import renewal
from sampan.runtimes.contract import RuntimeFailure
from sampan.runtimes.safe_paths import UnsafePath


def pod(*containers: dict[str, Any], **spec: Any) -> Pod:
    every = [{"name": f"c{index}", "image": "i", **container} for index, container in enumerate(containers)]
    return json.from_value({"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": every, **spec}}, Pod)


def limited(memory: str) -> dict[str, Any]:
    return {"resources": {"limits": {"memory": memory}}}


@pytest.mark.parametrize(
    ("containers", "limit", "size"),
    [
        ([{}], None, 1 << 30),
        ([{}], "1Mi", 1 << 20),
        ([{}], "2Gi", 1 << 30),
        ([limited("64Mi"), limited("64Mi")], None, 128 << 20),
        ([limited("64Mi"), {}], None, 1 << 30),
        ([limited("64Mi")], "32Mi", 32 << 20),
    ],
)
def test_how_large_memory_may_become(containers: list[dict[str, Any]], limit: str | None, size: int) -> None:
    assert memory_size(pod(*containers), EmptyDirVolumeSource(medium="Memory", sizeLimit=limit), "1Gi") == size


def test_huge_pages() -> None:
    asking = pod({"resources": {"requests": {"hugepages-2Mi": "4Mi", "hugepages-1Gi": "1Gi"}}})
    assert page_size(asking, "HugePages-2Mi") == "2Mi"
    with pytest.raises(VolumeOperationError, match="multiple huge page sizes"):
        page_size(asking, "HugePages")
    with pytest.raises(VolumeOperationError, match="no resource request for huge pages"):
        page_size(pod({}), "HugePages")


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
def test_sub_paths(mount: dict[str, Any], variables: dict[str, str], outcome: object) -> None:
    volume_mount = VolumeMount(name="v", mountPath="/v", **mount)
    if isinstance(outcome, RuntimeFailure):
        with pytest.raises(RuntimeFailure) as failure:
            chosen_subpath(volume_mount, variables)
        assert (failure.value.reason, failure.value.message) == ("CreateContainerConfigError", outcome.message)
    else:
        assert chosen_subpath(volume_mount, variables) == outcome


def test_recursively_read_only() -> None:
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


def test_propagation() -> None:
    assert [propagation(mode) for mode in (None, "None", "HostToContainer", "Bidirectional")] == [
        "private",
        "private",
        "rslave",
        "rshared",
    ]


def test_host_paths_of_all_types(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dir").mkdir()
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "s"))
    server.close()
    for name, type in [("file", "File"), ("dir", "Directory"), ("s", "Socket"), ("new/d", "DirectoryOrCreate")]:
        host_path.check(tmp_path / name, type)
    host_path.check(tmp_path / "new/f", "FileOrCreate")
    host_path.check(Path("/dev/null"), "CharDevice")
    host_path.check(tmp_path / "any", "")
    for name, type, message in [
        ("dir", "File", "is not a file"),
        ("file", "Directory", "is not a directory"),
        ("none", "Directory", "is not a directory"),
        ("none", "File", "is not a file"),
        ("file", "DirectoryOrCreate", "is not a directory"),
        ("file", "Socket", "is not a socket file"),
        ("file", "CharDevice", "is not a character device"),
        ("file", "BlockDevice", "is not a block device"),
        ("file", "Odd", "Odd is an invalid volume type"),
    ]:
        with pytest.raises(VolumeOperationError, match=message):
            host_path.check(tmp_path / name, type)
    assert (tmp_path / "new/f").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "new/d").stat().st_mode & 0o777 == 0o755
    (tmp_path / "nowhere").symlink_to(tmp_path / "none")
    with pytest.raises(FileExistsError):
        host_path.check(tmp_path / "nowhere", "")


def test_mounts_inside_a_volume() -> None:
    mounts = [
        {"name": "v", "mountPath": "/etc/v"},
        {"name": "a", "mountPath": "/etc/v/inner"},
        {"name": "b", "mountPath": "/etc/v/inner/deep"},
        {"name": "c", "mountPath": "/etc/vv"},
        {"name": "d", "mountPath": "/etc/v/in/to"},
    ]
    assert sorted(nested_mount_points(pod({"volumeMounts": mounts}), "v")) == ["in/to", "inner"]
    assert nested_mount_points(pod({"volumeMounts": mounts}), "a") == ["deep"]
    assert nested_mount_points(pod({"volumeMounts": mounts}), "c") == []


def test_the_user_of_a_pod() -> None:
    own = {"securityContext": {"runAsUser": 5}}
    assert pod_user(pod(own, own)) == 5
    assert pod_user(pod(own, {})) is None
    assert pod_user(pod(own, {}, securityContext={"runAsUser": 5})) == 5
    assert pod_user(pod(own, {"securityContext": {"runAsUser": 6}})) is None


@given(st.integers(600, 1 << 32))
def test_tokens_are_renewed_in_time(life_s: int) -> None:
    at = renewal(1000.0 + life_s, float(life_s))
    assert 1000 < at < 1000 + life_s
    assert at <= 1000 + 24 * 3600
    assert life_s > 100_000 or at == pytest.approx(1000 + 0.8 * life_s)


def test_trust_anchors() -> None:
    first, second = (f"-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n" for text in ("AA==", "BA=="))
    assert joined_certificates([first + second, f"# words\n{second}"]) == (first + second).encode()
    assert joined_certificates([]) == b""


def test_iscsi_commands() -> None:
    source = ISCSIVolumeSource(iqn="iqn.x", targetPortal="10.0.0.1", lun=1, chapAuthSession=True)
    secret = {"node.session.auth.username": "me", "node.session.auth.password": "word"}
    commands = [" ".join(command) for command in iscsi.login(source, "10.0.0.1:3260", secret)]
    node = "-m node -p 10.0.0.1:3260 -T iqn.x -I default"
    assert commands == [
        "-m discoverydb -t sendtargets -p 10.0.0.1:3260 -I default -o new",
        "-m discoverydb -t sendtargets -p 10.0.0.1:3260 -I default --discover",
        f"{node} -o update -n node.session.scan -v manual",
        f"{node} -o update -n node.session.auth.authmethod -v CHAP",
        f"{node} -o update -n node.session.auth.username -v me",
        f"{node} -o update -n node.session.auth.password -v word",
        f"{node} --login",
        "-m node -p 10.0.0.1:3260 -T iqn.x -o update -n node.startup -v manual",
    ]
    assert [command[-1] for command in iscsi.logout("p", "iqn.x", "default")] == ["--logout", "delete"]


def test_drivers_of_a_node() -> None:
    info = NodeInfo("id", 3, {"zone": "z"})
    [driver] = updated_drivers([], "d", info)
    assert (driver.nodeID, driver.topologyKeys, driver.allocatable and driver.allocatable.count) == ("id", ["zone"], 3)
    assert updated_drivers([driver], "d", info) == [driver]
    other = CSINodeDriver(name="o", nodeID="x")
    assert [driver.name for driver in updated_drivers([driver, other], "d", NodeInfo("new", 0, {}))] == ["o", "d"]
    assert updated_drivers([driver, other], "d", None) == [other]
    node = Node(metadata=ObjectMeta(name="n"))
    assert node_metadata_patch(node, "d", info) == {
        "annotations": {"csi.volume.kubernetes.io/nodeid": '{"d":"id"}'},
        "labels": {"zone": "z"},
    }
    node.metadata.annotations = {"csi.volume.kubernetes.io/nodeid": '{"d":"id"}'}
    node.metadata.labels = {"zone": "z"}
    assert node_metadata_patch(node, "d", info) == {}
    assert node_metadata_patch(node, "d", None) == {"annotations": {"csi.volume.kubernetes.io/nodeid": None}}
    with pytest.raises(VolumeOperationError, match="detected topology value collision"):
        node_metadata_patch(node, "d", NodeInfo("id", 0, {"zone": "other"}))


def test_plugins_that_are_refused() -> None:
    assert validation_error("d", ["1.0.0"]) == ""
    assert "empty list for supported versions" in validation_error("d", [])
    assert 'None of the versions specified ["0.3.0"] are supported' in validation_error("d", ["0.3.0"])


@pytest.mark.parametrize(
    ("policy", "kind", "is_read_only", "gives"),
    [
        ("File", "", False, True),
        ("None", "ext4", False, False),
        (None, "ext4", False, True),
        (None, "", False, False),
        (None, "ext4", True, False),
    ],
)
def test_who_gives_files_to_the_group(policy: str | None, kind: str, is_read_only: bool, gives: bool) -> None:
    new_pod = pod({}, securityContext={"fsGroup": 1}, volumes=[{"name": "v", "csi": {"driver": "d", "fsType": kind}}])
    info = json.from_value({"spec": {"fsGroupPolicy": policy}}, CSIDriver) if policy else None
    assert applies_fs_group(VolumeSpec(pod=new_pod, volume=new_pod.spec.volumes[0]), info, is_read_only) is gives


def test_variables_in_files(tmp_path: Path) -> None:
    (tmp_path / "env").write_text("# no\nA=1\nB='two words'\n\nC = x=y\n")
    assert [env_file_value(tmp_path, "env", key) for key in "ABCD"] == ["1", "two words", "x=y", None]
    assert env_file_value(tmp_path, "../x", "A") is None
    assert env_file_value(tmp_path, "none", "A") is None


@pytest.mark.parametrize("kind", ["pipe", "directory", "huge", "circle"])
def test_a_file_of_variables_that_a_sidecar_has_replaced_is_refused_at_once(tmp_path: Path, kind: str) -> None:
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


def test_a_file_of_variables_may_be_a_link_within_the_volume_only(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("A=outside\n")
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "real").write_text("A=inside\n")
    for name, target in {"in": "/real", "up": "../secret", "out": str(tmp_path / "secret")}.items():
        (volume / name).symlink_to(target)
    assert [env_file_value(volume, name, "A") for name in ("in", "up", "out")] == ["inside", None, None]


@pytest.mark.parametrize("text", ["", "{", "[]", "5", "{}", '{"driverName": "d"}', "\xff"])
def test_notes_of_volumes_that_cannot_be_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "vol_data.json").write_text(text, "latin-1")
    assert load(tmp_path / "vol_data.json") is None
    assert load(tmp_path / "nothing") is None
