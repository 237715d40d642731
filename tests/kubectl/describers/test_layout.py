"""The pieces of descriptions: alignment, annotations, selectors and titles of fields."""

from __future__ import annotations

import pytest

from sampan.kubectl.describers.generic import field_title
from sampan.kubectl.describers.layout import annotation_lines, selector_text, text_of, time_text


def test_columns_of_adjacent_lines_are_aligned() -> None:
    assert text_of(iter(["Name:\tweb", "Namespace:\tdefault", "Data", "a:\t1"])) == (
        "Name:       web\nNamespace:  default\nData\na:  1\n"
    )


def test_terminal_control_characters_are_visible() -> None:
    assert text_of(iter(["a\x1b[31m\r"])) == "a^[[31m\\r\n"


def test_last_applied_annotation_is_omitted_and_long_annotations_are_cut() -> None:
    values = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "long": "x" * 200, "short": "y"}
    assert list(annotation_lines("Annotations", values)) == [
        "Annotations:\tlong:",
        "\t  " + "x" * 138 + "...",
        "\tshort: y",
    ]


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (None, ""),
        ({}, ""),
        ({"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2"),
        ({"matchExpressions": [{"key": "k", "operator": "In", "values": ["b", "a"]}]}, "k in (a,b)"),
        ({"matchExpressions": [{"key": "k", "operator": "DoesNotExist"}]}, "!k"),
    ],
)
def test_selectors(selector: dict[str, object] | None, text: str) -> None:
    assert selector_text(selector) == text


@pytest.mark.parametrize(
    ("field", "title"),
    [
        ("creationTimestamp", "Creation Timestamp"),
        ("apiVersion", "API Version"),
        ("uid", "UID"),
        ("some-key", "Some - Key"),
        ("odd.key", "odd.key"),
    ],
)
def test_titles_of_fields(field: str, title: str) -> None:
    assert field_title(field) == title


def test_absent_time_is_the_year_one() -> None:
    assert time_text(None) == "Mon, 01 Jan 0001 00:00:00 +0000"
    assert time_text("2026-01-02T03:04:05Z") == "Fri, 02 Jan 2026 03:04:05 +0000"
