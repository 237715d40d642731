import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sampan.storage.cacher.keys import KeySpace, SortedKeys
from tests.storage.cacher.cacher_store import NODES, PODS

# Namespaces whose order by name is not their order by key.
namespaces = st.sampled_from(["a", "a-b", "ab", "a.b", "b"])
places = st.tuples(namespaces, st.text("abc-.", min_size=1, max_size=3))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SortedKeys, "_BLOCK", 4)


@settings(max_examples=150)
@given(st.lists(st.tuples(places, st.booleans()), max_size=60), places)
def test_the_same_as_a_sorted_set(steps: list[tuple[tuple[str, str], bool]], start: tuple[str, str]) -> None:
    space, model = KeySpace(PODS), dict[str, str]()
    for (namespace, name), is_added in steps:
        key = PODS.key(namespace, name)
        if is_added and key not in model:
            space.add(namespace, key)
            model[key] = namespace
        elif not is_added and key in model:
            space.remove(namespace, key)
            del model[key]
    for first in ("", PODS.key(*start), PODS.key(*start) + "\0"):
        for namespace in ("", start[0]):
            expected = sorted(k for k, ns in model.items() if k >= first and namespace in ("", ns))
            assert [key for block in space.blocks(namespace, first) for key in block] == expected
            assert space.count(namespace, first) == len(expected)
    assert space.last() == max(model, default="")
    assert space.last(start[0]) == max((k for k, ns in model.items() if ns == start[0]), default="")


def test_without_namespaces() -> None:
    space = KeySpace(NODES)
    for name in "cab":
        space.add("", NODES.key("", name))
    assert [key for block in space.blocks() for key in block] == [NODES.prefix + name for name in "abc"]
    assert space.count("", NODES.key("", "b")) == 2
    space.remove("", NODES.key("", "c"))
    assert space.last() == NODES.key("", "b")
