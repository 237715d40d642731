"""Names of session cookies."""

import pytest

from sampan.machinery.http.session_cookies import is_session_cookie, make_session_cookie_name


@pytest.mark.parametrize("is_secure", [True, False])
def test_made_names_are_recognized_in_any_case(is_secure: bool) -> None:
    name = make_session_cookie_name(6443, is_secure=is_secure)
    assert name == ("__Host-sampan-6443" if is_secure else "sampan-6443")
    assert is_session_cookie(name)
    assert is_session_cookie(name.upper())
    assert not is_session_cookie(f"x{name}")
