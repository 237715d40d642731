"""CEL selectors of devices."""

from typing import Any

import pytest

from sampan.machinery.cel import CelError
from sampan.machinery.cel.devices import compile_selector
from sampan.machinery.cel.library.quantities import quantity_value

DEVICE: dict[str, Any] = {
    "driver": "a.io",
    "attributes": {"a.io": {"model": "x", "cores": 4}, "b.io": {"on": True}},
    "capacity": {"a.io": {"memory": quantity_value("8Gi")}},
    "allowMultipleAllocations": False,
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('device.driver == "a.io"', True),
        ('device.attributes["a.io"].cores > 4', False),
        ('device.attributes["b.io"].on', True),
        ('device.capacity["a.io"].memory.compareTo(quantity("8Gi")) == 0', True),
        ("device.allowMultipleAllocations", False),
        ('has(device.attributes["other.io"].on)', False),
        ('has(device.capacity["other.io"].memory) || device.driver == "a.io"', True),
        ('cel.bind(own, device.attributes["other.io"], "on" in own)', False),
        ('device.attributes["a.io"].model in ["x", "y"]', True),
    ],
)
def test_selector_matches_device(text: str, expected: bool) -> None:
    assert compile_selector(text).matches(DEVICE) is expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('device.attributes["a.io"].colour == "red"', "no such key: colour"),
        ('device.attributes["other.io"].colour == "red"', "no such key: colour"),
        ('device.attributes["a.io"].model', "must evaluate to bool"),
    ],
)
def test_evaluation_errors(text: str, message: str) -> None:
    with pytest.raises(CelError, match=message):
        compile_selector(text).matches(DEVICE)


@pytest.mark.parametrize("text", ["device.driver", "device.colour", "nobody.knows", "1 +"])
def test_invalid_selectors_are_rejected(text: str) -> None:
    with pytest.raises(CelError, match=r"compilation failed|must evaluate to bool or the unknown type, not string"):
        compile_selector(text)
