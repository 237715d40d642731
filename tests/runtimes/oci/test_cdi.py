"""CDI: vendor files that describe devices, and their edits of containers."""

import json
from pathlib import Path
from typing import Any

import pytest

from sampan.runtimes.contract import RuntimeFailure
from sampan.runtimes.oci.cdi import apply_edits, collect_edits

SPEC: dict[str, Any] = {
    "process": {"env": ["A=1", "B=2"], "user": {"uid": 0, "gid": 0, "additionalGids": [5]}},
    "mounts": [{"destination": "/data", "type": "bind", "source": "/old", "options": []}],
    "linux": {"devices": [], "resources": {"devices": [{"allow": False, "access": "rwm"}]}},
}


def write(directory: Path, name: str, *devices: dict[str, Any], **fields: Any) -> None:
    directory.mkdir(exist_ok=True)
    content = {"cdiVersion": "0.6.0", "kind": "vendor.com/gpu", "devices": list(devices), **fields}
    (directory / name).write_text(json.dumps(content))


def device(name: str, **container_edits: Any) -> dict[str, Any]:
    return {"name": name, "containerEdits": container_edits}


def test_edits_for_all_devices_of_a_file_apply_once(tmp_path: Path) -> None:
    write(tmp_path, "a.json", device("0", env=["ONE=1"]), device("1", env=["TWO=2"]), containerEdits={"env": ["ALL=x"]})
    changes = collect_edits(["vendor.com/gpu=0", "vendor.com/gpu=1", "vendor.com/gpu=0"], [tmp_path])
    assert [change["env"] for change in changes] == [["ALL=x"], ["ONE=1"], ["TWO=2"]]


def test_later_directories_override_and_conflicts_in_a_directory_are_errors(tmp_path: Path) -> None:
    first, second = tmp_path / "etc", tmp_path / "run"
    write(first, "a.json", device("0", env=["X=first"]), device("1"))
    write(first, "b.json", device("1"))
    write(second, "a.json", device("0", env=["X=second"]))
    assert collect_edits(["vendor.com/gpu=0"], [first, second])[-1] == {"env": ["X=second"]}
    with pytest.raises(RuntimeFailure) as failure:
        collect_edits(["vendor.com/gpu=0", "vendor.com/gpu=1", "vendor.com/gpu=9"], [first, second])
    message = "CDI device injection failed: unresolvable CDI devices vendor.com/gpu=1, vendor.com/gpu=9"
    assert failure.value.message == message


def test_yaml_files_are_read_and_unreadable_files_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: vendor.com/gpu\ndevices: [{name: g, containerEdits: {env: [Y=1]}}]\n")
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "broken.yaml").write_text("a: [")
    (tmp_path / "odd.json").write_text("[1]")
    assert collect_edits(["vendor.com/gpu=g"], [tmp_path, tmp_path / "none"])[-1] == {"env": ["Y=1"]}


def test_edits_are_applied_to_the_container_spec() -> None:
    changes = {
        "env": ["B=3", "C=4"],
        "deviceNodes": [{"path": "/dev/gpu", "hostPath": "/dev/null", "permissions": "rw"}],
        "mounts": [{"hostPath": "/lib/gpu", "containerPath": "/data", "options": ["ro", "bind"]}],
        "hooks": [{"hookName": "createContainer", "path": "/bin/true", "args": ["true"]}],
        "additionalGids": [5, 7],
    }
    spec = apply_edits(SPEC, [changes])
    assert spec["process"]["env"] == ["A=1", "B=3", "C=4"]
    assert spec["process"]["user"]["additionalGids"] == [5, 7]
    [node] = spec["linux"]["devices"]
    assert (node["path"], node["type"], node["major"], node["minor"]) == ("/dev/gpu", "c", 1, 3)
    rule = {"allow": True, "type": "c", "major": 1, "minor": 3, "access": "rw"}
    assert spec["linux"]["resources"]["devices"][1:] == [rule]
    [mount] = spec["mounts"]
    assert (mount["source"], mount["options"]) == ("/lib/gpu", ["ro", "bind"])
    assert spec["hooks"] == {"createContainer": [{"path": "/bin/true", "args": ["true"]}]}
    assert SPEC["process"]["env"] == ["A=1", "B=2"]
    assert SPEC["linux"]["devices"] == []


def test_missing_host_device_raises_runtime_failure() -> None:
    with pytest.raises(RuntimeFailure, match="failed to stat CDI host device"):
        apply_edits(SPEC, [{"deviceNodes": [{"path": "/dev/no-such-device"}]}])


@pytest.mark.parametrize(
    "content", ['{"devices": 5}', '{"devices": ["text"]}', '{"kind": 1, "devices": [{}]}', "[" * 5000]
)
def test_invalid_files_are_skipped(tmp_path: Path, content: str) -> None:
    write(tmp_path, "good.json", device("0", env=["X=1"]))
    (tmp_path / "odd.json").write_text(content)
    (tmp_path / "odd.yaml").write_text(content)
    (tmp_path / "folder.json").mkdir()
    with (tmp_path / "large.json").open("wb") as file:
        file.truncate(5 << 20)
    assert collect_edits(["vendor.com/gpu=0"], [tmp_path])[-1] == {"env": ["X=1"]}


@pytest.mark.parametrize(
    "changes", [{"mounts": [{}]}, {"env": [5]}, {"deviceNodes": ["text"]}, {"hooks": 7}, {"additionalGids": 1}]
)
def test_invalid_edits_raise_runtime_failure(changes: dict[str, Any]) -> None:
    with pytest.raises(RuntimeFailure, match="CDI device injection failed"):
        apply_edits(SPEC, [changes])


def test_device_belongs_to_the_user_and_pipes_have_no_device_rule() -> None:
    spec = {**SPEC, "process": {**SPEC["process"], "user": {"uid": 7, "gid": 8, "additionalGids": []}}}
    nodes = [{"path": "/dev/gpu", "hostPath": "/dev/null", "gid": 0}, {"path": "/run/pipe", "type": "p"}]
    linux = apply_edits(spec, [{"deviceNodes": nodes}])["linux"]
    assert [(device["uid"], device["gid"]) for device in linux["devices"]] == [(7, 0), (7, 8)]
    assert [device.get("type") for device in linux["resources"]["devices"]] == [None, "c"]
