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
def test_key_space_behaves_like_a_sorted_set(steps: list[tuple[tuple[str, str], bool]], start: tuple[str, str]) -> None:
    key_space, model = KeySpace(PODS), dict[str, str]()
    for (namespace, name), is_added in steps:
        key = PODS.key(namespace, name)
        if is_added and key not in model:
            key_space.add(namespace, key)
            model[key] = namespace
        elif not is_added and key in model:
            key_space.remove(namespace, key)
            del model[key]
    for first in ("", PODS.key(*start), PODS.key(*start) + "\0"):
        for namespace in ("", start[0]):
            expected = sorted(k for k, ns in model.items() if k >= first and namespace in ("", ns))
            assert [key for block in key_space.blocks(namespace, first) for key in block] == expected
            assert key_space.count(namespace, first) == len(expected)
    assert key_space.get_last() == max(model, default="")
    assert key_space.get_last(start[0]) == max((k for k, ns in model.items() if ns == start[0]), default="")


def test_keys_of_a_cluster_scoped_resource() -> None:
    key_space = KeySpace(NODES)
    for name in "cab":
        key_space.add("", NODES.key("", name))
    assert [key for block in key_space.blocks() for key in block] == [NODES.prefix + name for name in "abc"]
    assert key_space.count("", NODES.key("", "b")) == 2
    key_space.remove("", NODES.key("", "c"))
    assert key_space.get_last() == NODES.key("", "b")
