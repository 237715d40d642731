"""Files of API objects in volumes."""

import asyncio
from pathlib import Path

import pytest

from sampan.api.types.core_v1 import ConfigMap, KeyToPath
from sampan.kubelet.volumes.plugins.api_objects import FileDefaults, files_of_config_map, nested_mount_points
from tests.calls import check_growth, counted_calls
from tests.kubelet.volumes.pods import pod
from tests.kubelet.volumes.volume_manager_node import Scene, needs_root, run_scenario


def test_outermost_mount_points_inside_a_volume() -> None:
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


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/opt/foo/../../../../srv/outside", []),
        ("/opt/foo/../foo2/x", []),
        ("/opt/foo/..", []),
        ("/opt/foo/x/../../../..", []),
        ("/opt/foo/x/../y/./z//w", ["y/z/w"]),
        ("opt/../opt/foo/relative", ["relative"]),
        ("//opt/foo/slashes", ["slashes"]),
        ("/../opt/foo/above", ["above"]),
        ("/opt/foo/x/..", []),
    ],
)
def test_mount_paths_with_dot_segments_never_lead_out_of_the_volume(path: str, expected: list[str]) -> None:
    mounts = [{"name": "v", "mountPath": "/opt/foo"}, {"name": "e", "mountPath": path}]
    assert nested_mount_points(pod({"volumeMounts": mounts}), "v") == expected


def test_mount_points_with_a_common_beginning_are_all_found() -> None:
    paths = ["/v", "/v/a", "/v/a-b", "/v/a/c", "/v/a-b/c/d", "/v/b/c", "/v2"]
    mounts = [{"name": "v" if path == "/v" else "e", "mountPath": path} for path in paths]
    assert nested_mount_points(pod({"volumeMounts": mounts}), "v") == ["a", "a-b", "b/c"]


def test_the_cost_of_nested_mount_points_grows_with_the_number_of_mounts() -> None:
    def calls(count: int) -> int:
        paths = [f"/v0/x{number}" for number in range(count)]
        whole = pod({"volumeMounts": [{"name": "v", "mountPath": path} for path in ("/v0", *paths)]})
        with counted_calls() as count_of:
            nested_mount_points(whole, "v")
        return count_of.calls

    check_growth(calls(4000), calls(1000))


@needs_root
def test_a_mount_path_with_dot_segments_creates_nothing_outside_of_the_volume(tmp_path: Path) -> None:
    outside = tmp_path / "outside"

    async def scenario(scene: Scene) -> None:
        await scene.create(ConfigMap, "c", data={"key": "value"})
        up = "../" * 40
        mounts = [
            {"name": "v", "mountPath": "/opt/foo"},
            {"name": "e", "mountPath": f"/opt/foo/{up}{str(outside).lstrip('/')}/x"},
            {"name": "e", "mountPath": "/opt/foo/in/side"},
            {"name": "e", "mountPath": f"/opt/foo/{'d/' * 300}"},
        ]
        volumes = [{"name": "v", "configMap": {"name": "c"}}, {"name": "e", "emptyDir": {}}]
        whole = await scene.pod(volumes=volumes, containers=[{"name": "c", "image": "i", "volumeMounts": mounts[:3]}])
        deep = await scene.pod(
            "deep", volumes=volumes, containers=[{"name": "c", "image": "i", "volumeMounts": mounts}]
        )
        async with scene.running_manager() as manager, asyncio.TaskGroup() as group:
            await manager.mount(whole)
            volume = scene.directory(whole, "configmap", "v")
            assert (volume / "key").read_text() == "value"
            assert (volume / "in/side").is_dir()
            task = group.create_task(manager.mount(deep))
            assert "more than 256 levels of directories" in await scene.wait_for_warning()
            task.cancel()
            await manager.unmount(whole)
            await manager.unmount(deep)

    run_scenario(tmp_path, scenario)
    assert not outside.exists()


@pytest.mark.parametrize(("has_users", "owners"), [(True, {"a": 5, "b": 7}), (False, {"a": None, "b": None})])
def test_files_have_the_user_of_their_item_or_of_the_volume(has_users: bool, owners: dict[str, int | None]) -> None:
    config_map = ConfigMap(data={"a": "1", "b": "2"})
    items = [KeyToPath(key="a", path="a"), KeyToPath(key="b", path="b", user=7)]
    defaults = FileDefaults(0o644, 5 if has_users else None, has_users)
    files = files_of_config_map(config_map, items, defaults, optional=False)
    assert {path: file.user for path, file in files.items()} == owners
