"""Registration of CSI drivers: CSINode, labels and annotations of the node, and refused drivers."""

import pytest

from sampan.api.types.core_v1 import Node
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.storage_v1 import CSINodeDriver
from sampan.kubelet.volumes.contract import VolumeOperationError
from sampan.kubelet.volumes.csi.client import NodeInfo
from sampan.kubelet.volumes.csi.registration import node_metadata_patch, update_driver_list, validation_error


def test_a_driver_is_added_to_the_node_and_removed() -> None:
    info = NodeInfo("id", 3, {"zone": "z"})
    [driver] = update_driver_list([], "d", info)
    assert (driver.nodeID, driver.topologyKeys, driver.allocatable and driver.allocatable.count) == ("id", ["zone"], 3)
    assert update_driver_list([driver], "d", info) == [driver]
    other = CSINodeDriver(name="o", nodeID="x")
    assert [driver.name for driver in update_driver_list([driver, other], "d", NodeInfo("new", 0, {}))] == ["o", "d"]
    assert update_driver_list([driver, other], "d", None) == [other]
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


def test_a_driver_without_a_supported_version_is_refused() -> None:
    assert validation_error("d", ["1.0.0"]) == ""
    assert "empty list for supported versions" in validation_error("d", [])
    assert 'None of the versions specified ["0.3.0"] are supported' in validation_error("d", ["0.3.0"])
