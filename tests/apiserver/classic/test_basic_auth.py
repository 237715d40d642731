"""Classic basic authentication with usernames and passwords."""

import base64

import pytest

from sampan.apiserver.classic.basic_auth import BasicAuthenticator
from sampan.apiserver.request.call import Call, Query, UserInfo
from sampan.machinery import errors

ANN = UserInfo("ann", "1", ("team", "system:authenticated"))
BEN = UserInfo("ben", "2", ("system:authenticated",))


def authenticate(header: str) -> UserInfo | None:
    call = Call(method="GET", path="/", query=Query(""), headers={"Authorization": header})
    return BasicAuthenticator([("se:cret", ANN), ("se:cret", BEN)]).authenticate(call)


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


def test_valid_password_authenticates_its_user() -> None:
    assert authenticate(basic("ann:se:cret")) is ANN
    assert authenticate(basic("ann:se:cret").replace("Basic", "basic")) is ANN


def test_users_with_the_same_password_are_distinguished() -> None:
    assert [authenticate(basic(f"{name}:se:cret")) for name in ("ann", "ben")] == [ANN, BEN]


@pytest.mark.parametrize("header", ["", "Bearer x", "Basically"])
def test_other_authorization_schemes_are_ignored(header: str) -> None:
    assert authenticate(header) is None


@pytest.mark.parametrize(
    "header", ["Basic", "Basic !", basic("ann"), basic("ann:"), basic("ann:secret"), basic("cid:se:cret"), basic(":")]
)
def test_invalid_credentials_are_rejected(header: str) -> None:
    with pytest.raises(errors.Unauthorized):
        authenticate(header)
