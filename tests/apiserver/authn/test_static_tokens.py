import asyncio
from pathlib import Path

import pytest

from sampan.apiserver.authn.authenticator import AuthenticationResponse
from sampan.apiserver.authn.static_tokens import FileTokens, TokenFileError, read_user_file
from sampan.apiserver.request.call import UserInfo


def _read(directory: Path, text: str) -> dict[str, UserInfo]:
    path = directory / "tokens.csv"
    path.write_text(text)
    return dict(read_user_file(path))


def test_token_file_lists_users_and_groups(tmp_path: Path) -> None:
    users = _read(tmp_path, 'a,alice,1,"dev, ops"\nb, bob ,2\n\n# nobody\nc,carol,3,system:authenticated\n')
    assert users == {
        "a": UserInfo("alice", "1", ("dev", "ops", "system:authenticated")),
        "b": UserInfo("bob", "2", ("system:authenticated",)),
        "c": UserInfo("carol", "3", ("system:authenticated",)),
    }


@pytest.mark.parametrize("text", ["a\n", "a,b\n", ",b,c\n", "a,,c\n"])
def test_token_file_errors_name_the_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(TokenFileError, match=r"tokens\.csv, line 2"):
        _read(tmp_path, "x,y,z\n" + text)


def test_binary_token_file_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "tokens.csv"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(TokenFileError):
        read_user_file(path)


def test_only_exact_tokens_are_accepted() -> None:
    alice = UserInfo("alice")
    tokens = FileTokens({"secret": alice})
    assert asyncio.run(tokens.authenticate_token("secret")) == AuthenticationResponse(alice)
    for wrong in ("secre", "secrets", "Secret", "", "\ud800"):
        assert asyncio.run(tokens.authenticate_token(wrong)) is None
    assert "secret" not in repr(vars(tokens))
