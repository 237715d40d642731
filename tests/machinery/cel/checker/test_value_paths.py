"""Paths share memory as those of cel-go do, and lead to the types that variables declare."""

import pytest

from sampan.machinery.cel.checker.types import ANY, INT, STRING, ObjectType, limit_size, list_of, map_of, optional_of
from sampan.machinery.cel.checker.value_paths import ITEMS, KEYS, VALUES, ValuePath, declared_type, extend, max_size

_SELF = ObjectType(
    "Self", {"n": INT, "l": list_of(limit_size(STRING, 5), max_size=3), "m": map_of(limit_size(STRING, 0), INT)}
)


def _path(*names: str) -> ValuePath:
    path: ValuePath | None = None
    for name in names:
        path = extend(path, name)
    assert path is not None
    return path


def test_extensions_of_a_path_without_room_are_independent() -> None:
    path = _path("self", "a")
    first, second = path.append("b"), path.append("c")
    assert [list(first), list(second), list(path)] == [["self", "a", "b"], ["self", "a", "c"], ["self", "a"]]


def test_later_extension_overwrites_an_earlier_one_in_the_room_of_a_path() -> None:
    path = _path("self", "l", ITEMS)
    first, second = path.append("a"), path.append("b")
    assert list(first) == list(second) == ["self", "l", ITEMS, "b"]


def test_path_of_elements_shares_nothing() -> None:
    path = _path("self", "l", ITEMS)
    element = path.element()
    path.append("b")
    assert list(element) == ["self", "l", ITEMS, ITEMS]


@pytest.mark.parametrize(
    ("names", "size"),
    [
        (("self",), 0),
        (("self", "n"), 0),
        (("self", "l"), 3),
        (("self", "l", ITEMS), 5),
        (("self", "m"), None),
        (("self", "m", KEYS), 0),
        (("oldSelf", "l"), 3),
        ((ITEMS, "l"), 3),
    ],
)
def test_size_at_a_path(names: tuple[str, ...], size: int | None) -> None:
    declared = declared_type(_path(*names), {"self": _SELF, "oldSelf": optional_of(_SELF)})
    assert declared is not None
    assert max_size(declared) == size


@pytest.mark.parametrize("names", [("self", "n", ITEMS), ("self", "x"), ("self", "m", "key"), ("self", "l", KEYS)])
def test_no_type_at_other_paths(names: tuple[str, ...]) -> None:
    assert declared_type(_path(*names), {"self": _SELF}) is None


def test_attributes_of_any_type_have_one_size() -> None:
    device = ObjectType("Device", {"attributes": map_of(STRING, limit_size(ANY, 64))})
    declared = declared_type(_path("device", "attributes", "anything"), {"device": device})
    assert declared is not None
    assert max_size(declared) == 64
    assert declared_type(_path("other", VALUES), {"device": device}) is None
