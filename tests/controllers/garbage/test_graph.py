"""The ownership graph, compared with a plain model for any order of events."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from sampan.api.limits import OWNERS_PER_OBJECT
from sampan.api.resources.resource import Resource
from sampan.controllers.garbage.graph import DependencyGraph, GraphNode
from sampan.controllers.garbage.ownership import OwnedObject, OwnerRef, OwnershipMetadata
from sampan.machinery.object_key import NamespacedName
from tests.input_cost import is_quick

MAPS = Resource(group="", version="v1", kind="ConfigMap", plural="configmaps", singular="configmap")
NODES = Resource(group="", version="v1", kind="Node", plural="nodes", singular="node", namespaced=False)
KINDS = {("v1", "ConfigMap"): MAPS, ("v1", "Node"): NODES}


def owned_object(
    uid: str, *owners: OwnerRef, finalizers: tuple[str, ...] = (), is_deleted: bool = False
) -> OwnedObject:
    when = "2026-01-01T00:00:00Z" if is_deleted else None
    return OwnedObject(
        OwnershipMetadata(uid=uid, ownerReferences=owners, finalizers=finalizers, deletionTimestamp=when)
    )


def ref(name: str, uid: str, kind: str = "ConfigMap", blocks: bool = True) -> OwnerRef:
    return OwnerRef("v1", kind, name, uid, blocks)


class VisitRecorder:
    def __init__(self) -> None:
        self.visited: list[GraphNode] = []
        self.graph = DependencyGraph(self.visited.append)
        self.graph.set_kinds(KINDS)
        self.maps = self.graph.nodes(MAPS)

    def take_names(self) -> list[str]:
        names = [f"{node.key.name}{'?' if node.is_virtual else ''}" for node in self.visited]
        self.visited.clear()
        return names


A, B, C = (NamespacedName("n", name) for name in "abc")


def test_unseen_owner_is_visited_once() -> None:
    recorder = VisitRecorder()
    recorder.graph.put(recorder.maps, B, owned_object("2", ref("a", "1")))
    recorder.graph.put(recorder.maps, C, owned_object("3", ref("a", "1")))
    assert recorder.take_names() == ["a?"]
    recorder.graph.put(recorder.maps, A, owned_object("1"))
    assert recorder.take_names() == []
    recorder.graph.remove(recorder.maps, A)
    assert sorted(recorder.take_names()) == ["b", "c"]


def test_dependents_share_equal_owner_references() -> None:
    recorder = VisitRecorder()
    for key, uid in ((B, "2"), (C, "3")):
        recorder.graph.put(recorder.maps, key, owned_object(uid, ref("a", "1")))
    assert recorder.maps.present[B].owners is recorder.maps.present[C].owners


def test_object_with_same_name_and_other_uid_is_not_the_owner() -> None:
    recorder = VisitRecorder()
    recorder.graph.put(recorder.maps, B, owned_object("2", ref("a", "1")))
    recorder.take_names()
    recorder.graph.put(recorder.maps, A, owned_object("9"))
    assert recorder.take_names() == ["a?"]
    assert A not in recorder.maps.present
    recorder.graph.remove_node(recorder.maps.virtual[A]["1"])
    assert recorder.take_names() == ["b"]


def test_owner_in_foreground_deletion_is_visited_when_a_dependent_unblocks() -> None:
    recorder = VisitRecorder()
    recorder.graph.put(recorder.maps, B, owned_object("2", ref("a", "1")))
    recorder.graph.put(recorder.maps, A, owned_object("1"))
    recorder.take_names()
    waiting = owned_object("1", finalizers=("foregroundDeletion",), is_deleted=True)
    recorder.graph.put(recorder.maps, A, waiting)
    assert recorder.take_names() == ["b", "a"]
    recorder.graph.put(recorder.maps, A, waiting)
    assert recorder.take_names() == []
    assert recorder.maps.present[B].blocks(recorder.maps.present[A])
    recorder.graph.put(recorder.maps, B, owned_object("2", ref("a", "1", blocks=False)))
    assert "a" in recorder.take_names()
    assert not recorder.maps.present[B].blocks(recorder.maps.present[A])


def test_cost_of_many_owner_references_is_not_quadratic() -> None:
    def change_owners() -> None:
        recorder = VisitRecorder()
        for shift in (0, 1, 2):
            refs = [ref(f"o{number}", f"u{number}") for number in range(shift, OWNERS_PER_OBJECT - 2 + shift)]
            for number in range(5):
                key = NamespacedName("n", f"d{number}")
                recorder.graph.put(recorder.maps, key, owned_object(f"d{number}", *refs, ref("own", f"{number}")))

    assert is_quick(change_owners, 0.3)  # comparing all with all takes a second


def test_object_with_too_many_owners_has_none() -> None:
    refs = [ref(f"o{number}", f"u{number}") for number in range(OWNERS_PER_OBJECT + 1)]
    recorder = VisitRecorder()
    recorder.graph.put(recorder.maps, B, owned_object("2", *refs))
    assert recorder.take_names() == []
    assert recorder.graph.size() == 0
    recorder.graph.put(recorder.maps, B, owned_object("2", *refs[1:]))
    assert recorder.graph.size() == OWNERS_PER_OBJECT + 1


def test_owner_is_visited_once_its_kind_is_known() -> None:
    recorder = VisitRecorder()
    recorder.graph.set_kinds({})
    recorder.graph.put(recorder.maps, B, owned_object("2", ref("a", "1")))
    assert recorder.take_names() == []
    recorder.graph.set_kinds(KINDS)
    assert recorder.take_names() == ["a?"]


NAMES = "abcd"


@given(st.data())
def test_dependents_match_a_model(data: st.DataObject) -> None:
    """Objects named a to d are created, change owners, are deleted and are created again with new uids."""
    recorder, model, serial = VisitRecorder(), dict[str, tuple[str, tuple[OwnerRef, ...]]](), 0
    uids: list[tuple[str, str]] = [("a", "x")]
    for _ in range(data.draw(st.integers(1, 25))):
        name = data.draw(st.sampled_from(NAMES))
        key = NamespacedName("n", name)
        if name in model and data.draw(st.booleans()):
            recorder.graph.remove(recorder.maps, key)
            del model[name]
            continue
        if name not in model:
            serial += 1
            uids.append((name, str(serial)))
        uid = model[name][0] if name in model else str(serial)
        owners = tuple(ref(*picked) for picked in data.draw(st.lists(st.sampled_from(uids), max_size=2, unique=True)))
        recorder.graph.put(recorder.maps, key, owned_object(uid, *owners))
        model[name] = (uid, owners)
        for node in [graph_node for graph_node in recorder.visited if graph_node.is_virtual]:  # as the controller does
            present = model.get(node.key.name)
            if present is not None and present[0] == node.uid:
                recorder.graph.put(recorder.maps, node.key, owned_object(present[0], *present[1]))
            else:
                recorder.graph.remove_node(node)
        recorder.visited.clear()
        _compare(recorder, model)


def _compare(recorder: VisitRecorder, model: Mapping[str, tuple[str, tuple[OwnerRef, ...]]]) -> None:
    expected: dict[str, set[str]] = {}
    for name, (_, owners) in model.items():
        for owner in owners:
            if owner.name in model and model[owner.name][0] == owner.uid:
                expected.setdefault(owner.name, set()).add(name)
    present = recorder.maps.present
    dependents = {k.name: {d.key.name for d in n.dependents} for k, n in present.items() if n.dependents}
    assert dependents == expected
    assert {key.name for key in present} == {name for name in model if model[name][1] or name in expected}
    assert not recorder.maps.virtual
