"""Users with passwords."""

import base64

import pytest

from sampan.apiserver.classic.basic_auth import BasicAuthenticator
from sampan.apiserver.request.call import Call, Query, UserInfo
from sampan.machinery import errors

ANN = UserInfo("ann", "1", ("team", "system:authenticated"))
BEN = UserInfo("ben", "2", ("system:authenticated",))


def known_as(header: str) -> UserInfo | None:
    call = Call(method="GET", path="/", query=Query(""), headers={"Authorization": header})
    return BasicAuthenticator([("se:cret", ANN), ("se:cret", BEN)]).authenticate(call)


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


def test_the_right_password() -> None:
    assert known_as(basic("ann:se:cret")) is ANN
    assert known_as(basic("ann:se:cret").replace("Basic", "basic")) is ANN


def test_two_users_with_the_same_password_are_both_known() -> None:
    assert [known_as(basic(f"{name}:se:cret")) for name in ("ann", "ben")] == [ANN, BEN]


@pytest.mark.parametrize("header", ["", "Bearer x", "Basically"])
def test_what_is_not_basic_is_left_to_others(header: str) -> None:
    assert known_as(header) is None


@pytest.mark.parametrize(
    "header", ["Basic", "Basic !", basic("ann"), basic("ann:"), basic("ann:secret"), basic("cid:se:cret"), basic(":")]
)
def test_what_is_wrong_is_refused(header: str) -> None:
    with pytest.raises(errors.Unauthorized):
        known_as(header)
