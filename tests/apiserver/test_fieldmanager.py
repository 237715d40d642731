"""Names of field managers."""

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
def test_manager_name_comes_from_the_request_or_the_user_agent(requested: str, agent: str, name: str) -> None:
    assert manager_name(requested, agent) == name
