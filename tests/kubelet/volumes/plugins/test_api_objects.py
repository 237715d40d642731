"""Files of API objects in volumes."""

from sampan.kubelet.volumes.plugins.api_objects import nested_mount_points
from tests.kubelet.volumes.pods import pod


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
