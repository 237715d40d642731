"""Resource versions and UIDs that a client sends as preconditions."""

from typing import Any

import pytest

from sampan.api.scheme import builtin_scheme
from sampan.api.types.coordination_v1 import Lease
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.apiserver.registry import preconditions
from sampan.machinery import errors

_resource = builtin_scheme().resource("coordination.k8s.io", "v1", "leases")
assert _resource is not None
LEASES = _resource


def _lease(version: str = "", uid: str = "u") -> Lease:
    return Lease(metadata=ObjectMeta(name="a", namespace="n", uid=uid, resourceVersion=version))


@pytest.mark.parametrize(("text", "number"), [("", 0), ("0", 0), ("007", 7), (str(2**64 - 1), 2**64 - 1)])
def test_a_resource_version_is_a_number(text: str, number: int) -> None:
    assert preconditions.version_number(text) == number


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x", "invalid syntax"),
        ("-1", "invalid syntax"),
        ("1.0", "invalid syntax"),
        (" 1", "invalid syntax"),
        ("²", "invalid syntax"),
        (str(2**64), "value out of range"),
        ("9" * 5000, "value out of range"),
    ],
)
def test_invalid_resource_version_gets_500_without_reason(text: str, why: str) -> None:
    with pytest.raises(errors.ApiError) as raised:
        preconditions.version_number(text)
    assert (raised.value.code, raised.value.reason) == (500, "")
    assert raised.value.message.endswith(why)


@pytest.mark.parametrize(
    ("version", "may_be_missing", "expected_error"),
    [
        ("7", False, None),
        ("07", False, None),
        ("", True, None),
        ("0", True, None),
        ("", False, errors.Invalid),
        ("0", False, errors.Invalid),
        ("6", True, errors.Conflict),
    ],
)
def test_update_with_missing_or_stale_resource_version_is_rejected(
    version: str, may_be_missing: bool, expected_error: Any
) -> None:
    if expected_error is None:
        preconditions.check_version(LEASES, _lease(version), 7, may_be_missing=may_be_missing)
        return
    with pytest.raises(expected_error) as raised:
        preconditions.check_version(LEASES, _lease(version), 7, may_be_missing=may_be_missing)
    assert 'leases.coordination.k8s.io "a"' in raised.value.message


def test_the_store_checks_uid_before_version() -> None:
    key, lease = "/registry/leases/n/a", _lease("7")
    preconditions.check_stored(LEASES, key, lease, uid="u", resource_version="7")
    preconditions.check_stored(LEASES, key, None)
    for conditions, word in (
        ({"uid": "x", "resource_version": "1"}, "UID"),
        ({"resource_version": "1"}, "ResourceVersion"),
    ):
        with pytest.raises(errors.Conflict, match=f"Key: {key}, .*: {word} in precondition: "):
            preconditions.check_stored(LEASES, key, lease, **conditions)
    with pytest.raises(errors.Conflict, match=r"UID in precondition: u, UID in object meta: $"):
        preconditions.check_stored(LEASES, key, None, uid="u")


def test_failed_precondition_of_deletion_names_the_kind() -> None:
    preconditions.check(_lease("7"), uid="u", resource_version="7")
    with pytest.raises(errors.Conflict, match=r'on Lease.coordination.k8s.io "a": the UID in the precondition \(x\)'):
        preconditions.check(_lease("7"), uid="x", resource_version=None)
    with pytest.raises(errors.Conflict, match=r"the ResourceVersion in the precondition \(8\) does not match"):
        preconditions.check(_lease("7"), uid=None, resource_version="8")
