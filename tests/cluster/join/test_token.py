"""The text of a join token, and the Secret that the cluster keeps of it."""

import pytest

from sampan.cluster.join.token import (
    DEFAULT_GROUP,
    BadToken,
    JoinToken,
    groups_of,
    is_one_use,
    new_token,
    parse_token,
    parse_token_id,
    token_secret,
    usages_of,
)
from sampan.controllers.security.bootstrap_tokens import ONE_USE_GROUP

HASH = f"sha256:{'0a' * 32}"


def test_a_token_is_read_back_from_its_text() -> None:
    token = new_token(HASH)
    assert parse_token(f" {token}\n") == token
    assert parse_token(token.bearer) == JoinToken(token.id, token.secret)
    assert parse_token_id(token.id) == parse_token_id(str(token)) == token.id


def test_new_tokens_are_unique() -> None:
    assert len({new_token(HASH) for _ in range(100)}) == 100


@pytest.mark.parametrize(
    "text", ["", "abcdef", "abcdef.short", "ABCDEF.0123456789abcdef", "abcdef.0123456789abcdef@sha256:1"]
)
def test_error_for_an_invalid_token_does_not_contain_the_token(text: str) -> None:
    with pytest.raises(BadToken) as raised:
        parse_token(text)
    assert not text or text not in str(raised.value)


def test_the_representation_of_a_token_hides_its_secret() -> None:
    token = new_token(HASH)
    assert token.secret not in repr(token)


def test_token_secret_has_the_same_fields_as_with_kubeadm() -> None:
    token = JoinToken("abcdef", "0123456789abcdef", HASH)
    secret = token_secret(token, expires=86400, description="rack 3")
    assert (secret.metadata.namespace, secret.metadata.name) == ("kube-system", "bootstrap-token-abcdef")
    assert secret.type == "bootstrap.kubernetes.io/token"
    assert secret.data == {
        "token-id": b"abcdef",
        "token-secret": b"0123456789abcdef",
        "description": b"rack 3",
        "expiration": b"1970-01-02T00:00:00Z",
        "usage-bootstrap-signing": b"true",
        "usage-bootstrap-authentication": b"true",
        "auth-extra-groups": DEFAULT_GROUP.encode(),
    }


def test_one_use_token_has_an_additional_group() -> None:
    secret = token_secret(new_token(HASH), expires=None, is_one_use=True)
    assert is_one_use(secret)
    assert groups_of(secret) == [DEFAULT_GROUP, ONE_USE_GROUP]
    assert "expiration" not in secret.data


def test_token_without_authentication_usage_has_no_groups() -> None:
    secret = token_secret(new_token(HASH), expires=None, usages=["signing"])
    assert usages_of(secret) == ["signing"]
    assert groups_of(secret) == []
