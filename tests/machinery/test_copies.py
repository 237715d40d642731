"""Copies share no mutable values with the original."""

from sampan.api.types.core_v1 import Pod, PodSpec, Volume
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.unstructured import Unstructured
from sampan.machinery.copies import copy_of


def test_copy_of_a_typed_object_is_independent() -> None:
    pod = Pod(metadata=ObjectMeta(name="p", labels={"a": "b"}), spec=PodSpec(volumes=[Volume(name="v")]))
    copy = copy_of(pod)
    assert copy == pod
    copy.metadata.labels["a"] = copy.spec.volumes[0].name = "changed"
    assert (pod.metadata.labels, pod.spec.volumes[0].name) == ({"a": "b"}, "v")


def test_copy_of_an_unstructured_object_is_independent() -> None:
    boat = Unstructured(kind="Boat", apiVersion="e/v1", metadata=ObjectMeta(name="b"), content={"spec": {"x": [1]}})
    copy = copy_of(boat)
    assert copy.to_value() == boat.to_value()
    copy.spec["x"].append(2)
    copy.metadata.labels["a"] = "b"
    assert boat.to_value()["spec"] == {"x": [1]}
    assert boat.metadata.labels == {}
