"""Warnings of a response: each once, truncated and dropped as the real API server does it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sampan.api import limits
from sampan.apiserver.registry.strategy import Context
from sampan.apiserver.request.call import Call, Query, Warnings, request_in_frame


def _of(*texts: str) -> Warnings:
    warnings = Warnings()
    for text in texts:
        warnings.add(text)
    return warnings


def test_each_text_is_there_once_in_order() -> None:
    assert _of("b", "a", "b", "", "a", "c") == ["b", "a", "c"]


def test_up_to_4096_characters_nothing_is_truncated() -> None:
    texts = ["a" * 2000, "b" * 2096]
    warnings = _of(*texts)
    assert warnings == texts
    assert not warnings.is_full


def test_beyond_4096_characters_every_text_is_truncated() -> None:
    warnings = _of("a" * 2000, "b" * 2097, "c", "d" * 300)
    assert warnings == ["a" * 256, "b" * 256, "c", "d" * 256]


def test_when_the_truncated_texts_fill_the_room_the_rest_is_dropped() -> None:
    warnings = _of(*(f"{number:04d}" + "x" * 300 for number in range(1000)))
    assert len(warnings) == limits.WARNINGS_LENGTH // limits.WARNING_LENGTH
    assert all(len(text) == limits.WARNING_LENGTH for text in warnings)
    assert warnings.is_full


def test_characters_count_and_not_bytes() -> None:
    assert _of("ü" * 4096) == ["ü" * 4096]
    assert _of("ü" * 4097) == ["ü" * 256]


def test_a_text_that_no_header_can_carry_is_dropped() -> None:
    assert _of("a\nb", "a\x7fb", "ab") == ["ab"]


def test_a_source_of_endless_warnings_is_not_exhausted() -> None:
    """An attacker who can have n^2 warnings computed does not get them computed."""
    calls = 0

    def endless() -> Iterator[str]:
        nonlocal calls
        while True:
            calls += 1
            yield f"{calls} " + "x" * 100

    warnings = Warnings()
    nothing: Any = None
    ctx = Context(
        registry=nothing, user=nothing, now="", warn=warnings.add, has_enough_warnings=lambda: warnings.is_full
    )
    ctx.warn_all(endless())
    assert warnings.is_full
    assert calls < 100


def test_a_log_line_about_a_request_has_no_query() -> None:
    call = Call(method="GET", path="/api/v1/pods", query=Query("token=secret"), headers={})

    def text_of(call: Call) -> str:
        import sys

        return request_in_frame(sys._getframe())

    assert text_of(call) == "GET '/api/v1/pods' by 'system:anonymous'"
