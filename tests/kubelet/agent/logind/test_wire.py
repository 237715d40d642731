"""Messages of D-Bus."""

from typing import Any

import pytest

from sampan.kubelet.agent.logind import wire
from sampan.kubelet.agent.logind.wire import Message


@pytest.mark.parametrize(
    ("signature", "body"),
    [
        ("", []),
        ("s", ["text"]),
        ("ssss", ["", "a", "ab", "abc"]),
        ("yb", [7, True]),
        ("v", [("t", 5_000_000)]),
        ("a(so)", [[("a", "/a"), ("bb", "/b")]]),
        ("a{sv}u", [[("k", ("i", -1)), ("l", ("as", ["x"]))], 3]),
        ("ax", [[1, -2]]),
    ],
)
def test_what_is_written_is_read(signature: str, body: list[Any]) -> None:
    message = Message(
        kind=wire.CALL, serial=9, path="/p", member="M", destination="a.b", signature=signature, body=body
    )
    data = wire.encode(message)
    assert wire.length(data + b"more") == len(data)
    assert wire.length(data[:15]) is None
    assert wire.decode(data) == message


def test_a_call_as_the_specification_has_it() -> None:
    hello = Message(
        kind=wire.CALL,
        serial=1,
        path="/org/freedesktop/DBus",
        interface="org.freedesktop.DBus",
        member="Hello",
        destination="org.freedesktop.DBus",
    )
    data = wire.encode(hello)
    assert data[:16] == bytes.fromhex("6c010001 00000000 01000000 6d000000")
    assert data[16:24] == b"\x01\x01o\x00\x15\x00\x00\x00"
    assert len(data) == 128


def test_types() -> None:
    assert wire.parts("sa{sv}(ii)aas") == ["s", "a{sv}", "(ii)", "aas"]
    with pytest.raises(ValueError, match="does not end"):
        wire.parts("(i")
