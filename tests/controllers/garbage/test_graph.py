"""The graph against a plain model: whatever comes in whichever order, it knows who depends on whom and no more."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from sampan.api.resources.resource import Resource
from sampan.controllers.garbage.graph import Graph, GraphNode
from sampan.controllers.garbage.ownership import Metadata, Owned, OwnerRef
from sampan.machinery.object_key import NamespacedName

MAPS = Resource(group="", version="v1", kind="ConfigMap", plural="configmaps", singular="configmap")
NODES = Resource(group="", version="v1", kind="Node", plural="nodes", singular="node", namespaced=False)
KINDS = {("v1", "ConfigMap"): MAPS, ("v1", "Node"): NODES}


def owned(uid: str, *owners: OwnerRef, finalizers: tuple[str, ...] = (), is_deleted: bool = False) -> Owned:
    when = "2026-01-01T00:00:00Z" if is_deleted else None
    return Owned(Metadata(uid=uid, ownerReferences=owners, finalizers=finalizers, deletionTimestamp=when))


def ref(name: str, uid: str, kind: str = "ConfigMap", blocks: bool = True) -> OwnerRef:
    return OwnerRef("v1", kind, name, uid, blocks)


class Looks:
    def __init__(self) -> None:
        self.visited: list[GraphNode] = []
        self.graph = Graph(self.visited.append)
        self.graph.set_kinds(KINDS)
        self.maps = self.graph.nodes(MAPS)

    def take_names(self) -> list[str]:
        names = [f"{node.key.name}{'?' if node.is_virtual else ''}" for node in self.visited]
        self.visited.clear()
        return names


A, B, C = (NamespacedName("n", name) for name in "abc")


def test_an_owner_that_was_not_seen_is_asked_for_once() -> None:
    looks = Looks()
    looks.graph.put(looks.maps, B, owned("2", ref("a", "1")))
    looks.graph.put(looks.maps, C, owned("3", ref("a", "1")))
    assert looks.take_names() == ["a?"]
    looks.graph.put(looks.maps, A, owned("1"))
    assert looks.take_names() == []
    looks.graph.remove(looks.maps, A)
    assert sorted(looks.take_names()) == ["b", "c"]


def test_siblings_share_what_they_say_of_their_owner() -> None:
    looks = Looks()
    for key, uid in ((B, "2"), (C, "3")):
        looks.graph.put(looks.maps, key, owned(uid, ref("a", "1")))
    assert looks.maps.present[B].owners is looks.maps.present[C].owners


def test_another_of_the_same_name_is_not_the_owner() -> None:
    looks = Looks()
    looks.graph.put(looks.maps, B, owned("2", ref("a", "1")))
    looks.take_names()
    looks.graph.put(looks.maps, A, owned("9"))
    assert looks.take_names() == ["a?"]
    assert A not in looks.maps.present
    looks.graph.remove_node(looks.maps.virtual[A]["1"])
    assert looks.take_names() == ["b"]


def test_an_owner_that_waits_is_looked_at_with_its_dependents_and_when_one_goes() -> None:
    looks = Looks()
    looks.graph.put(looks.maps, B, owned("2", ref("a", "1")))
    looks.graph.put(looks.maps, A, owned("1"))
    looks.take_names()
    waiting = owned("1", finalizers=("foregroundDeletion",), is_deleted=True)
    looks.graph.put(looks.maps, A, waiting)
    assert looks.take_names() == ["b", "a"]
    looks.graph.put(looks.maps, A, waiting)
    assert looks.take_names() == []
    assert [node.key for node in looks.maps.present[A].blocking()] == [B]
    looks.graph.put(looks.maps, B, owned("2", ref("a", "1", blocks=False)))
    assert "a" in looks.take_names()
    assert looks.maps.present[A].blocking() == []


def test_kinds_that_come_later() -> None:
    looks = Looks()
    looks.graph.set_kinds({})
    looks.graph.put(looks.maps, B, owned("2", ref("a", "1")))
    assert looks.take_names() == []
    looks.graph.set_kinds(KINDS)
    assert looks.take_names() == ["a?"]


NAMES = "abcd"
States = Mapping[str, tuple[str, tuple[str, ...]] | None]


@given(st.data())
def test_against_a_model(data: st.DataObject) -> None:
    """Objects named a to d come, change owners, go and come again under new uids."""
    looks, model, serial = Looks(), dict[str, tuple[str, tuple[OwnerRef, ...]]](), 0
    uids: list[tuple[str, str]] = [("a", "x")]
    for _ in range(data.draw(st.integers(1, 25))):
        name = data.draw(st.sampled_from(NAMES))
        key = NamespacedName("n", name)
        if name in model and data.draw(st.booleans()):
            looks.graph.remove(looks.maps, key)
            del model[name]
            continue
        if name not in model:
            serial += 1
            uids.append((name, str(serial)))
        uid = model[name][0] if name in model else str(serial)
        owners = tuple(ref(*picked) for picked in data.draw(st.lists(st.sampled_from(uids), max_size=2, unique=True)))
        looks.graph.put(looks.maps, key, owned(uid, *owners))
        model[name] = (uid, owners)
        for node in [graph_node for graph_node in looks.visited if graph_node.is_virtual]:  # as the controller does
            present = model.get(node.key.name)
            if present is not None and present[0] == node.uid:
                looks.graph.put(looks.maps, node.key, owned(present[0], *present[1]))
            else:
                looks.graph.remove_node(node)
        looks.visited.clear()
        _compare(looks, model)


def _compare(looks: Looks, model: Mapping[str, tuple[str, tuple[OwnerRef, ...]]]) -> None:
    expected: dict[str, set[str]] = {}
    for name, (_, owners) in model.items():
        for owner in owners:
            if owner.name in model and model[owner.name][0] == owner.uid:
                expected.setdefault(owner.name, set()).add(name)
    present = looks.maps.present
    dependents = {k.name: {d.key.name for d in n.dependents} for k, n in present.items() if n.dependents}
    assert dependents == expected
    assert {key.name for key in present} == {name for name in model if model[name][1] or name in expected}
    assert not looks.maps.virtual
