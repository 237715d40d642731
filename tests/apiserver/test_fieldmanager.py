"""What managers are called."""

import pytest

from sampan.apiserver.fieldmanager import manager_name


@pytest.mark.parametrize(
    ("requested", "agent", "name"),
    [
        ("named", "kubectl/v1.36", "named"),
        ("", "kubectl/v1.36 (linux)", "kubectl"),
        ("", "a tool", "a tool"),
        ("", "/slash", ""),
        ("", "", ""),
        ("", "a\x00b\nc/x", "abc"),
        ("", "x" * 200, "x" * 128),
        ("", "é" * 100, "é" * 64),
        ("", "x" * 127 + "é", "x" * 127),
    ],
)
def test_the_manager_is_named_by_the_request_or_the_user_agent(requested: str, agent: str, name: str) -> None:
    assert manager_name(requested, agent) == name
