"""The user names and groups of service accounts, and the groups of every authenticated user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sampan.api import names
from sampan.apiserver.request.call import AUTHENTICATED, UNAUTHENTICATED, UserInfo

_PREFIX = "system:serviceaccount:"
ACCOUNTS = "system:serviceaccounts"
_NODE_CLAIM = "authentication.kubernetes.io/node-name"


def service_account_username(namespace: str, name: str) -> str:
    return f"{_PREFIX}{namespace}:{name}"


def service_account_groups(namespace: str) -> list[str]:
    return [ACCOUNTS, f"{ACCOUNTS}:{namespace}"]


def service_account_user(
    namespace: str, name: str, uid: str = "", extra: Mapping[str, tuple[str, ...]] | None = None
) -> UserInfo:
    return UserInfo(
        service_account_username(namespace, name), uid, (*service_account_groups(namespace), AUTHENTICATED), extra or {}
    )


def split_service_account(username: str) -> tuple[str, str] | None:
    """Return the namespace and name of a service account user; None for any other user."""
    if not username.startswith(_PREFIX):
        return None
    namespace, colon, name = username.removeprefix(_PREFIX).partition(":")
    if not colon or names.dns1123_label(namespace) or names.dns1123_subdomain(name):
        return None
    return namespace, name


def is_service_account_on(user: UserInfo, node: str) -> bool:
    """Whether the user is a service account whose token is bound to this node."""
    return split_service_account(user.name) is not None and user.extra.get(_NODE_CLAIM) == (node,)


def authenticated_groups(groups: Iterable[str]) -> tuple[str, ...]:
    own = tuple(groups)
    return own if AUTHENTICATED in own or UNAUTHENTICATED in own else (*own, AUTHENTICATED)
