"""API errors, compared with every Status that was recorded from a real server."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sampan.api import field_errors
from sampan.api.field_errors import FieldError, FieldPath
from sampan.machinery import errors
from sampan.machinery.errors import ApiError, from_status

EXAMPLES = {
    "not found": (errors.not_found("pods", "a"), "NotFound", 404, 'pods "a" not found'),
    "not found in a group": (
        errors.not_found("deployments", "a", group="apps"), "NotFound", 404, 'deployments.apps "a" not found'),
    "forbidden URL": (errors.forbidden("", "", "User \"u\" cannot get path \"/x\""), "Forbidden", 403,
                      'forbidden: User "u" cannot get path "/x"'),
    "forbidden collection": (
        errors.forbidden("things", "", "no", group="g"), "Forbidden", 403, "things.g is forbidden: no"),
    "conflict": (errors.conflict("pods", "a"), "Conflict", 409,
                 'Operation cannot be fulfilled on pods "a": the object has been modified; please apply your '
                 "changes to the latest version and try again"),
    "unsupported verb": (errors.method_not_supported("apps", "delete", group="g"), "MethodNotAllowed", 405,
                         'delete is not supported on resources of kind "apps.g"'),
    "timeout": (errors.timeout("late", retry_after_s=1), "Timeout", 504, "Timeout: late"),
    "server timeout": (errors.server_timeout("pods", "list", retry_after_s=2), "ServerTimeout", 500,
                       "The list operation against pods could not be completed at this time, please try again."),
    "unexpected": (errors.unexpected_error("oops"), "", 500, "oops"),
    "too large": (errors.request_entity_too_large("limit is 3"), "RequestEntityTooLarge", 413,
                  "Request entity too large: limit is 3"),
    "generic unexpected": (errors.generic(502, "bad gateway", is_unexpected=True), "InternalError", 502,
                           'an error on the server ("bad gateway") has prevented the request from succeeding'),
    "generic with an object": (errors.generic(404, verb="GET", resource="pods", name="a"), "NotFound", 404,
                               "the server could not find the requested resource (get pods a)"),
    "generic code without a reason": (
        errors.generic(418), "", 418,
        "the server responded with the status code 418 but did not return more information"),
    "generic conflict of a POST": (
        errors.generic(409, verb="POST"), "AlreadyExists", 409, "the server reported a conflict"),
}  # fmt: skip


@pytest.mark.parametrize(("error", "reason", "code", "message"), EXAMPLES.values(), ids=EXAMPLES)
def test_constructors_set_reason_code_and_message(error: ApiError, reason: str, code: int, message: str) -> None:
    assert (error.reason, error.code, str(error)) == (reason, code, message)
    rebuilt = from_status(error.status)
    assert type(rebuilt) is type(error)
    assert rebuilt.status == error.status


def test_status_fields_have_the_order_of_the_real_server() -> None:
    error = errors.too_many_requests("slow down", retry_after_s=3)
    order = ["kind", "apiVersion", "metadata", "status", "message", "reason", "details", "code"]
    assert list(error.status) == order
    assert error.status["details"] == {"retryAfterSeconds": 3}
    assert error.retry_after_s == 3


def test_empty_details_are_omitted_except_for_generic_errors() -> None:
    assert "details" not in errors.bad_request("no").status
    assert errors.generic(422, "why").status["details"] == {}


def test_message_of_invalid_contains_each_error_once() -> None:
    field_error = FieldError.required(FieldPath("spec"))
    error = errors.invalid("Pod", "x", [field_error, field_error])
    assert str(error) == 'Pod "x" is invalid: spec: Required value'
    assert len(error.causes) == 2
    assert error.has_cause("FieldValueRequired")
    assert str(errors.invalid("Pod", "x", [])) == 'Pod "x" is invalid'


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"code": 404}, errors.NotFound),
        ({"code": 409}, errors.Conflict),
        ({"code": 410}, errors.Gone),
        ({"code": 500}, ApiError),
        ({"code": 403, "reason": "Invalid"}, errors.Invalid),
        ({"code": 404, "reason": "SomethingNew"}, errors.NotFound),
        ({}, ApiError),
    ],
)
def test_error_class_follows_the_reason_and_then_the_code(status: dict[str, Any], expected: type[ApiError]) -> None:
    assert type(from_status(status)) is expected


def find_statuses(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if value.get("kind") == "Status" and value.get("status") == "Failure":
            yield value
        for part in value.values():
            yield from find_statuses(part)
    elif isinstance(value, list):
        for part in value:
            yield from find_statuses(part)


@pytest.fixture(scope="module")
def recorded(reference_dir: Path) -> list[dict[str, Any]]:
    files = sorted((reference_dir / "recordings").glob("*.json"))
    recorded = [status for file in files for status in find_statuses(json.loads(file.read_bytes()))]
    assert len(recorded) > 1000
    return recorded


def test_recorded_statuses_round_trip(recorded: list[dict[str, Any]]) -> None:
    for status in recorded:
        error = from_status(status)
        assert error.status == status
        assert (error.code, error.reason) == (status["code"], status.get("reason", ""))
        assert bool(error.reason) == (type(error) is not ApiError)


def test_recorded_invalid_messages_follow_from_their_causes(recorded: list[dict[str, Any]]) -> None:
    checked = 0
    for status in recorded:
        error = from_status(status)
        if not isinstance(error, errors.Invalid) or " is invalid: " not in error.message:
            continue
        if "message" not in status or "metadata" not in status:
            continue
        if not all("message" in cause and "field" in cause for cause in error.causes):
            continue
        details = error.details
        again = errors.invalid(
            details.get("kind", ""), details.get("name", ""), [parse_cause(cause) for cause in error.causes],
            group=details.get("group", ""),
        )  # fmt: skip
        assert again.status == {**status, "details": {**details, "causes": error.causes}}
        checked += 1
    assert checked > 600


def parse_cause(cause: dict[str, str]) -> FieldError:
    """Return a FieldError with the value and the detail of a recorded message."""
    word = field_errors._WORDS[cause["reason"]]
    rest = cause["message"].removeprefix(word).removeprefix(": ")
    if cause["reason"] not in field_errors._VALUE_IS_SHOWN:
        return FieldError(cause["reason"], cause["field"], field_errors.OMITTED, rest)
    value, end = parse_first_value(rest)
    return FieldError(cause["reason"], cause["field"], value, rest[end:].removeprefix(": "))


def parse_first_value(text: str) -> tuple[Any, int]:
    if quoted := re.match(r'"(?:[^"\\]|\\.)*"', text):
        return quoted[0][1:-1].encode().decode("unicode_escape").encode("latin1").decode(), quoted.end()
    try:
        value, end = json.JSONDecoder().raw_decode(text)
    except ValueError:
        return field_errors.OMITTED, 0
    # Objects are printed in the order of Go's fields, which cannot be derived from the message.
    return (value, end) if "{" not in text[:end] else (field_errors.OMITTED, 0)


def test_recorded_not_found_and_conflict_statuses_are_reproduced(recorded: list[dict[str, Any]]) -> None:
    """A Status with the default message of its reason equals that of the constructor function."""
    constructors = {
        "NotFound": (r"\S+ \".*\" not found", errors.not_found),
        "AlreadyExists": (r"\S+ \".*\" already exists", errors.already_exists),
        "Conflict": (r"Operation cannot be .* the object has been modified.*", errors.conflict),
    }
    counts = dict.fromkeys(constructors, 0)
    for status in recorded:
        pattern, construct = constructors.get(status.get("reason", ""), ("", None))
        if construct is None or not re.fullmatch(pattern, status.get("message", "")):
            continue
        details = status["details"]
        assert construct(details["kind"], details["name"], group=details.get("group", "")).status == status
        counts[status["reason"]] += 1
    assert all(counts.values()), counts


def test_recorded_generic_statuses_are_reproduced(recorded: list[dict[str, Any]]) -> None:
    empty = [status for status in recorded if status.get("details") == {} and status["code"] in (404, 405, 422)]
    assert len(empty) > 30
    for status in empty:
        assert errors.generic(status["code"], "why").status == status


def test_recorded_forbidden_statuses_are_reproduced(recorded: list[dict[str, Any]]) -> None:
    count = 0
    for status in recorded:
        match = re.fullmatch(r"(?:(\S+?)(?: \"(.*?)\")? is )?forbidden: (.*)", status.get("message", ""), re.DOTALL)
        if status.get("reason") != "Forbidden" or not match:
            continue
        details = status["details"]
        if match[2] is None and details.get("name"):
            continue
        forbidden = errors.forbidden(
            details.get("kind", ""), details.get("name", ""), match[3], group=details.get("group", ""),
            causes=details.get("causes", ()),
        )  # fmt: skip
        assert forbidden.status == status
        count += 1
    assert count > 150
