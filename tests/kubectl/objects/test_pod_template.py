"""Patterns for the names of containers."""

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.kubectl.objects.pod_template import matches_pattern


@pytest.mark.parametrize(
    ("name", "pattern", "is_match"),
    [
        ("web", "*", True),
        ("web", "web", True),
        ("web", "we", False),
        ("web", "w*b", True),
        ("wb", "w*b", True),
        ("w", "w*w", False),
        ("a-b-c", "*-b-*", True),
        ("", "*", True),
        ("a.b", "a?b", False),
    ],
)
def test_container_name_patterns(name: str, pattern: str, is_match: bool) -> None:
    assert matches_pattern(name, pattern) is is_match


@given(st.text("ab", max_size=12), st.text("ab*", max_size=8))
def test_patterns_match_like_fnmatch(name: str, pattern: str) -> None:
    assert matches_pattern(name, pattern) == fnmatchcase(name, pattern)
