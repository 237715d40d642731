import base64
import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from sampan.storage.cacher import InvalidContinue, InvalidVersion, ListWatchOptions, apply_defaults, validate_options
from sampan.storage.cacher.list_options import (
    PRESENT,
    ReadVersion,
    VersionRule,
    decode_continue,
    encode_continue,
    encode_continue_start,
    parse_get_version,
    parse_list_version,
    parse_version,
)

INVALID = 'resourceVersion: Invalid value: "{0}": strconv.ParseUint: parsing "{0}": {1}'


@pytest.mark.parametrize(("text", "number"), [("", 0), ("0", 0), ("17", 17), ("007", 7), (str(2**64 - 1), 2**64 - 1)])
def test_parse_version(text: str, number: int) -> None:
    assert parse_version(text) == number


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("abc", "invalid syntax"),
        ("-1", "invalid syntax"),
        ("+1", "invalid syntax"),
        ("1_0", "invalid syntax"),
        (" 1", "invalid syntax"),
        ("٣", "invalid syntax"),
        (str(2**64), "value out of range"),
        ("9" * 5000, "value out of range"),
    ],
)
def test_invalid_resource_versions_are_rejected(text: str, reason: str) -> None:
    with pytest.raises(InvalidVersion) as error:
        parse_version(text)
    assert str(error.value) == INVALID.format(text, reason)
    with pytest.raises(InvalidVersion) as error:
        parse_list_version(text, "", 0)
    assert str(error.value) == "invalid resource version: " + INVALID.format(text, reason)


@pytest.mark.parametrize(
    ("version", "match", "limit", "expected"),
    [
        ("", "", 0, ReadVersion(VersionRule.CONSISTENT)),
        ("", "", 5, ReadVersion(VersionRule.CONSISTENT)),
        ("0", "", 0, ReadVersion(VersionRule.ANY)),
        ("0", "NotOlderThan", 0, ReadVersion(VersionRule.ANY)),
        ("0", "", 5, ReadVersion(VersionRule.ANY)),
        ("7", "", 0, ReadVersion(VersionRule.NOT_OLDER, 7)),
        ("7", "", -1, ReadVersion(VersionRule.NOT_OLDER, 7)),
        ("7", "", 5, ReadVersion(VersionRule.EXACT, 7)),
        ("7", "NotOlderThan", 5, ReadVersion(VersionRule.NOT_OLDER, 7)),
        ("7", "Exact", 0, ReadVersion(VersionRule.EXACT, 7)),
    ],
)
def test_version_rule_of_a_list(version: str, match: str, limit: int, expected: ReadVersion) -> None:
    assert parse_list_version(version, match, limit) == expected


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("", ReadVersion(VersionRule.CONSISTENT)),
        ("0", ReadVersion(VersionRule.ANY)),
        ("7", ReadVersion(VersionRule.NOT_OLDER, 7)),
    ],
)
def test_version_rule_of_a_get(version: str, expected: ReadVersion) -> None:
    assert parse_get_version(version) == expected


def _options(request: str) -> ListWatchOptions:
    query = {name: values[0] for name, values in parse_qs(urlsplit(request.split()[1]).query).items()}
    initial = query.get("sendInitialEvents")
    return ListWatchOptions(
        is_watch=query.get("watch", "0") not in ("0", "false"),
        resource_version=query.get("resourceVersion", ""),
        match=query.get("resourceVersionMatch", ""),
        continue_token=query.get("continue", ""),
        send_initial_events=None if initial is None else initial not in ("0", "false"),
    )


@pytest.mark.parametrize("recording", ["lists-versions", "lists-paging", "watch-bad", "watch-stream-list"])
def test_validation_errors_equal_recorded_errors(reference_dir: Path, recording: str) -> None:
    steps: list[dict[str, Any]] = json.loads((reference_dir / "recordings" / f"{recording}.json").read_text())
    rejected = 0
    for step in steps:
        errors = validate_options(apply_defaults(_options(step["request"])))
        details = step["body"].get("details", {}) if isinstance(step["body"], dict) else {}
        recorded = details.get("causes", []) if step["status"] == 422 else []
        expected = [(cause["field"], cause["reason"], cause["message"]) for cause in recorded]
        assert [(error.field, error.type, error.body) for error in errors] == expected, step["name"]
        rejected += bool(errors)
    assert rejected or recording == "watch-stream-list"


SCOPE = "/registry/pods/default/"


def encode_token(**fields: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).rstrip(b"=").decode()


def test_continue_token_has_the_kubernetes_format() -> None:
    token = encode_continue(SCOPE + "b", SCOPE, 12)
    assert json.loads(base64.urlsafe_b64decode(token + "==")) == {"v": "meta.k8s.io/v1", "rv": 12, "start": "b\0"}
    assert decode_continue(token, SCOPE) == (SCOPE + "b\0", 12)


def test_continue_token_over_all_namespaces_contains_the_namespace() -> None:
    token = encode_continue(SCOPE + "b", "/registry/pods/", 12)
    assert decode_continue(token, "/registry/pods/") == (SCOPE + "b\0", 12)


def test_continue_token_for_the_current_revision_has_version_minus_one() -> None:
    token = encode_continue_start(SCOPE + "b\0", SCOPE, PRESENT)
    assert decode_continue(token, SCOPE) == (SCOPE + "b\0", -1)


V1 = "meta.k8s.io/v1"


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        ("garbage", ": invalid character '\\u0081' looking for beginning of value"),
        (
            encode_token(v="meta.k8s.io/v2", rv=1, start="a"),
            ": server does not recognize this encoded version meta.k8s.io/v2",
        ),
        (encode_token(v=V1, rv=0, start="a"), f": incorrect encoded start resourceVersion (version {V1})"),
        (encode_token(v=V1, start="a"), f": incorrect encoded start resourceVersion (version {V1})"),
        (encode_token(v=V1, rv=5, start=""), f": encoded start key empty (version {V1})"),
        (encode_token(v=V1, rv=5, start="../secrets/x"), ": ../secrets/x"),
        (encode_token(v=V1, rv=5, start="a/../../b"), ": a/../../b"),
        (encode_token(v=V1, rv=5, start="a//b"), ": a//b"),
        (encode_token(v=V1, rv=5, start="//b"), ": //b"),
        ("ab!d", ": illegal base64 data at input byte 2"),
        ("abcde", ": illegal base64 data at input byte 4"),
        ("eyJ2Ijo", ": unexpected end of JSON input"),
        ("Z2FyYmFnZQ", ": invalid character 'g' looking for beginning of value"),
    ],
)
def test_invalid_continue_tokens_get_the_kubernetes_errors(token: str, reason: str) -> None:
    with pytest.raises(InvalidContinue) as error:
        decode_continue(token, SCOPE)
    assert str(error.value) == "invalid continue token: continue key is not valid" + reason


@pytest.mark.parametrize(
    "token", [encode_token(v=V1, rv="5", start="a"), encode_token(v=V1, rv=5, start=["a"]), "W10", "MTI"]
)
def test_continue_tokens_with_wrong_types_are_rejected(token: str) -> None:
    with pytest.raises(InvalidContinue, match=r"^invalid continue token: continue key is not valid: "):
        decode_continue(token, SCOPE)
