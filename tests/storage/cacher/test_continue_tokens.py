import base64
import json

import pytest

from sampan.storage.cacher import InvalidContinue, list_options

SCOPE = "/registry/pods/default/"


def token(**wire: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(wire).encode()).rstrip(b"=").decode()


def test_a_token_is_that_of_the_real_server() -> None:
    token = list_options.encode_continue(SCOPE + "b", SCOPE, 12)
    assert json.loads(base64.urlsafe_b64decode(token + "==")) == {"v": "meta.k8s.io/v1", "rv": 12, "start": "b\0"}
    assert list_options.decode_continue(token, SCOPE) == (SCOPE + "b\0", 12)


def test_over_all_namespaces_the_start_has_the_namespace() -> None:
    token = list_options.encode_continue(SCOPE + "b", "/registry/pods/", 12)
    assert list_options.decode_continue(token, "/registry/pods/") == (SCOPE + "b\0", 12)


def test_it_goes_on_at_the_present_with_a_negative_version() -> None:
    token = list_options.encode_continue_start(SCOPE + "b\0", SCOPE, list_options.PRESENT)
    assert list_options.decode_continue(token, SCOPE) == (SCOPE + "b\0", -1)


V1 = "meta.k8s.io/v1"


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("garbage", ": invalid character '\\u0081' looking for beginning of value"),
        (token(v="meta.k8s.io/v2", rv=1, start="a"), ": server does not recognize this encoded version meta.k8s.io/v2"),
        (token(v=V1, rv=0, start="a"), f": incorrect encoded start resourceVersion (version {V1})"),
        (token(v=V1, start="a"), f": incorrect encoded start resourceVersion (version {V1})"),
        (token(v=V1, rv=5, start=""), f": encoded start key empty (version {V1})"),
        (token(v=V1, rv=5, start="../secrets/x"), ": ../secrets/x"),
        (token(v=V1, rv=5, start="a/../../b"), ": a/../../b"),
        (token(v=V1, rv=5, start="a//b"), ": a//b"),
        (token(v=V1, rv=5, start="//b"), ": //b"),
        ("ab!d", ": illegal base64 data at input byte 2"),
        ("abcde", ": illegal base64 data at input byte 4"),
        ("eyJ2Ijo", ": unexpected end of JSON input"),
        ("Z2FyYmFnZQ", ": invalid character 'g' looking for beginning of value"),
    ],
)
def test_errors(bad: str, why: str) -> None:
    with pytest.raises(InvalidContinue) as fault:
        list_options.decode_continue(bad, SCOPE)
    assert str(fault.value) == "invalid continue token: continue key is not valid" + why


@pytest.mark.parametrize("bad", [token(v=V1, rv="5", start="a"), token(v=V1, rv=5, start=["a"]), "W10", "MTI"])
def test_other_errors(bad: str) -> None:
    with pytest.raises(InvalidContinue, match=r"^invalid continue token: continue key is not valid: "):
        list_options.decode_continue(bad, SCOPE)
