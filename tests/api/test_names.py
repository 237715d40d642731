import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api import names
from tests.input_cost import check_cost

VECTORS = json.loads((Path(__file__).parent / "data" / "name_vectors.json").read_text())

Check = Callable[[str], list[str]]


FIELD_CHECKS = ("fully_qualified_name", "fully_qualified_domain_name", "domain_prefixed_path")
"""Checks that return field errors; the others return messages."""


def find_check(name: str) -> Check:
    if name in FIELD_CHECKS:
        return lambda value: [str(fault) for fault in getattr(names, name)(value, "p")]
    plain = name.removesuffix("_prefix")
    if plain != name:
        return lambda value: list(getattr(names, plain)(value, prefix=True))
    return lambda value: list(getattr(names, name)(value))


@pytest.mark.parametrize("name", sorted({name for name, _, _ in VECTORS}))
def test_messages_are_those_of_the_real_server(name: str) -> None:
    check = find_check(name)
    cases = {value: faults for kind, value, faults in VECTORS if kind == name}
    assert {value: check(value) for value in cases} == cases


CHECKS: dict[str, Check] = {
    name: find_check(name)
    for name in (
        "dns1123_label",
        "dns1123_subdomain",
        "dns1123_subdomain_caseless",
        "dns1035_label",
        "label_key",
        "label_value",
        "c_identifier",
        "config_map_key",
        "percent",
        "http_header_name",
        "wildcard_dns1123_subdomain",
        "dns1123_subdomain_with_underscore",
        "path_segment",
        "port_name",
        "env_var_name",
    )
}


WITHOUT_LENGTH_LIMIT = {"c_identifier", "env_var_name", "http_header_name", "path_segment"}


def find_cause_messages(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if str(value.get("reason", "")).startswith("FieldValue"):
            yield value.get("message", "")
        for inner in value.values():
            yield from find_cause_messages(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from find_cause_messages(inner)


def recorded_errors(reference_dir: Path) -> set[tuple[str, str]]:
    """Return invalid values with the recorded messages of the real server."""
    errors = set()
    for path in sorted((reference_dir / "recordings").glob("*.json")):
        for message in find_cause_messages(json.loads(path.read_text())):
            if match := re.fullmatch(r'Invalid value: ("(?:[^"\\]|\\.)*"): (.*)', message, re.DOTALL):
                errors.add((json.loads(match[1]), CALLER_PREFIX.sub("", match[2])))
    return errors


CALLER_PREFIX = re.compile(r"^(segment\[\d\]|may have mixed case, but should otherwise match): ")
"""The prefix that some callers add to a message."""

NAME_ERRORS = re.compile(
    r"regex used for validation|must be no more than (15|63|253) (characters|bytes)|name part must be non-empty"
    r"|must not contain dots|^may not (be '\.|contain '[/%]')|alpha-numeric|at least one letter|hyphen"
)


def is_found(value: str, fault: str) -> bool:
    faults = [check(value) for check in CHECKS.values()]
    return any(fault in messages or fault == ",".join(messages) for messages in faults)


def test_every_recorded_error_of_a_name_is_reported(reference_dir: Path) -> None:
    recorded = {(value, fault) for value, fault in recorded_errors(reference_dir) if NAME_ERRORS.search(fault)}
    assert len(recorded) > 40
    assert {pair for pair in recorded if not is_found(*pair)} == set()


@pytest.mark.parametrize(
    ("check", "value", "fault"),
    [
        ("dns1123_label", "a.b", "must not contain dots"),
        ("dns1123_label", "a" * 64, "must be no more than 63 characters"),
        ("dns1123_subdomain", "a" * 254, "must be no more than 253 characters"),
        ("label_value", "a" * 64, "must be no more than 63 bytes"),
        ("label_key", "/a", "prefix part must be non-empty"),
        ("label_key", "a/", "name part must be non-empty"),
        ("config_map_key", "..", "must not be '..'"),
        ("config_map_key", "..a", "must not start with '..'"),
        ("path_segment", "..", "may not be '..'"),
        ("path_segment", "a/b", "may not contain '/'"),
        ("port_name", "a--b", "must not contain consecutive hyphens"),
        ("port_name", "80", "must contain at least one letter (a-z)"),
        ("env_var_name", "", "environment variable name must be non-empty"),
    ],
)
def test_error_messages(check: str, value: str, fault: str) -> None:
    assert fault in CHECKS[check](value)


def test_a_prefix_may_end_in_a_dash() -> None:
    assert names.dns1123_subdomain("web-", prefix=True) == []
    assert names.dns1123_subdomain("web-") != []
    assert names.dns1123_subdomain("-", prefix=True) != []
    assert names.path_segment("..", prefix=True) == []


def test_lengths_count_bytes() -> None:
    assert names.label_value("é" * 32)[0] == "must be no more than 63 bytes"


def test_port_number_and_range() -> None:
    assert names.port_number(65535) == []
    assert names.port_number(0) == ["must be between 1 and 65535, inclusive"]
    assert names.range_errors(5, 1, 4) == ["must be between 1 and 4, inclusive"]


@given(st.from_regex(r"[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?", fullmatch=True))
def test_dns_labels_pass_all_checks(label: str) -> None:
    for check in ("dns1123_label", "dns1123_subdomain", "label_key", "label_value", "config_map_key", "path_segment"):
        assert CHECKS[check](label) == []


@given(st.text(max_size=80))
def test_valid_name_with_a_trailing_newline_is_rejected(value: str) -> None:
    for name, check in CHECKS.items():
        if not check(value) and name not in ("path_segment",):
            assert check(value + "\n")


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("a" * 100_000 + "_", id="underscore at the end"),
        pytest.param("a" + "-" * 100_000, id="dashes"),
        pytest.param("a." * 50_000 + "-", id="dash at the end of many labels"),
        pytest.param("aa." * 33_000 + "é", id="no ASCII at the end of many labels"),
    ],
)
def test_long_hostile_names_are_rejected_at_a_bounded_cost(value: str) -> None:
    accepted: set[str] = set()
    check_cost(lambda: accepted.update(name for name, check in CHECKS.items() if not check(value)))
    assert accepted <= WITHOUT_LENGTH_LIMIT
