"""Warnings of a response: deduplicated, truncated and dropped as kube-apiserver does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sampan.api import limits
from sampan.apiserver.registry.strategy import Context
from sampan.apiserver.request.call import Call, Query, Warnings, request_in_frame


def _warnings_of(*texts: str) -> Warnings:
    warnings = Warnings()
    for text in texts:
        warnings.add(text)
    return warnings


def test_warnings_are_deduplicated_in_order() -> None:
    assert _warnings_of("b", "a", "b", "", "a", "c") == ["b", "a", "c"]


def test_warnings_up_to_4096_characters_are_not_truncated() -> None:
    texts = ["a" * 2000, "b" * 2096]
    warnings = _warnings_of(*texts)
    assert warnings == texts
    assert not warnings.is_full


def test_warnings_beyond_4096_characters_are_truncated_to_256_each() -> None:
    warnings = _warnings_of("a" * 2000, "b" * 2097, "c", "d" * 300)
    assert warnings == ["a" * 256, "b" * 256, "c", "d" * 256]


def test_warnings_are_dropped_if_truncated_warnings_reach_the_limit() -> None:
    warnings = _warnings_of(*(f"{number:04d}" + "x" * 300 for number in range(1000)))
    assert len(warnings) == limits.WARNINGS_LENGTH // limits.WARNING_LENGTH
    assert all(len(text) == limits.WARNING_LENGTH for text in warnings)
    assert warnings.is_full


def test_warning_limits_count_characters_not_bytes() -> None:
    assert _warnings_of("ü" * 4096) == ["ü" * 4096]
    assert _warnings_of("ü" * 4097) == ["ü" * 256]


def test_warnings_with_control_characters_are_dropped() -> None:
    assert _warnings_of("a\nb", "a\x7fb", "ab") == ["ab"]


def test_warn_all_stops_once_the_warnings_are_full() -> None:
    """An attacker who sends an object with n^2 warnings cannot make the server compute all of them."""
    calls = 0

    def endless() -> Iterator[str]:
        nonlocal calls
        while True:
            calls += 1
            yield f"{calls} " + "x" * 100

    warnings = Warnings()
    nothing: Any = None
    ctx = Context(
        services=nothing, user=nothing, now="", warn=warnings.add, has_enough_warnings=lambda: warnings.is_full
    )
    ctx.warn_all(endless())
    assert warnings.is_full
    assert calls < 100


def test_a_log_line_about_a_request_has_no_query() -> None:
    call = Call(method="GET", path="/api/v1/pods", query=Query("token=secret"), headers={})

    def logged_request(call: Call) -> str:
        import sys

        return request_in_frame(sys._getframe())

    assert logged_request(call) == "GET '/api/v1/pods' by 'system:anonymous'"
