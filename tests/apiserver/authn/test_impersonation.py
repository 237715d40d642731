"""Impersonation: the permissions that it needs, and the resulting user."""

import asyncio

import pytest
from multidict import CIMultiDict

from sampan.apiserver.authn.impersonation import Impersonation, parse_impersonated_user
from sampan.apiserver.authz import PrivilegedGroupAuthorizer, UnionAuthorizer
from sampan.apiserver.authz.rbac import RbacAuthorizer
from sampan.apiserver.request.call import Call, Query, UserInfo
from sampan.machinery import errors
from tests.apiserver.authz.rbac_objects import binding, index_of, role, rule

ANN = UserInfo("ann", groups=("system:authenticated",))
ADMIN = UserInfo("admin", groups=("system:masters",))
AUTHENTICATION = "authentication.k8s.io"


def impersonation_with(*rules: object) -> Impersonation:
    index = index_of(role("r", *rules), binding("b", "r", "User ann"))  # type: ignore[arg-type]
    return Impersonation(authorizer=UnionAuthorizer(PrivilegedGroupAuthorizer(), RbacAuthorizer(index=index)))


def impersonate(impersonation: Impersonation, *headers: tuple[str, str], user: UserInfo = ANN) -> UserInfo:
    named = CIMultiDict([(f"Impersonate-{name}", value) for name, value in headers])
    call = Call(method="GET", path="/metrics", query=Query(""), headers=named, user=user, verb="get")
    asyncio.run(impersonation.apply(call))
    return call.user


def denial(impersonation: Impersonation, *headers: tuple[str, str]) -> str:
    with pytest.raises(errors.Forbidden) as forbidden:
        impersonate(impersonation, *headers)
    return forbidden.value.message


def test_user_is_unchanged_without_impersonation_headers() -> None:
    assert impersonate(impersonation_with()) is ANN
    assert impersonate(impersonation_with(), ("User", "")) is ANN


def test_the_verb_impersonate_allows_named_users() -> None:
    impersonation = impersonation_with(rule("impersonate", "users", names="ben"))
    assert impersonate(impersonation, ("User", "ben")) == UserInfo("ben", "", ("system:authenticated",))
    assert "cannot impersonate resource" in denial(impersonation, ("User", "cy"))


def test_error_names_the_first_denied_permission() -> None:
    message = denial(impersonation_with(), ("User", "ben"))
    assert message == 'forbidden: User "ann" cannot impersonate-on:user-info:get path "/metrics"'


def test_constrained_impersonation_needs_permission_for_action_and_user() -> None:
    action_verb, user_verb = "impersonate-on:user-info:get", "impersonate:user-info"
    users = rule(user_verb, "users", groups=AUTHENTICATION, names="ben")
    assert impersonate(impersonation_with(rule(action_verb, urls="/metrics"), users), ("User", "ben")).name == "ben"
    assert "impersonate-on" in denial(impersonation_with(rule(action_verb, urls="/logs"), users), ("User", "ben"))
    assert "impersonate:user-info resource" in denial(
        impersonation_with(rule(action_verb, urls="/metrics"), users), ("User", "cy")
    )


def test_constrained_impersonation_of_system_masters_is_forbidden() -> None:
    wildcard_rules = (
        rule("impersonate-on:user-info:get", urls="*"),
        rule("impersonate:user-info", "*", groups=AUTHENTICATION),
    )
    message = denial(impersonation_with(*wildcard_rules), ("User", "ben"), ("Group", "system:masters"))
    assert "impersonating the system:masters group is not allowed" in message
    assert impersonate(impersonation_with(*wildcard_rules), ("User", "ben"), ("Group", "team")).groups == (
        "team",
        "system:authenticated",
    )


def test_groups_uid_and_extra_need_separate_permissions() -> None:
    headers = (("User", "ben"), ("Group", "team"), ("Uid", "7"), ("Extra-Example.com%2fColour", "red"))
    rules = [
        rule("impersonate", "users groups"),
        rule("impersonate", "uids userextras/example.com/colour", groups=AUTHENTICATION),
    ]
    user = impersonate(impersonation_with(*rules), *headers)
    assert (user.uid, user.groups) == ("7", ("team", "system:authenticated"))
    assert user.extra == {"example.com/colour": ("red",)}
    assert denial(impersonation_with(rules[0]), *headers)
    assert denial(impersonation_with(rule("impersonate", "users"), rules[1]), *headers)


def test_impersonated_service_account_has_its_groups_unless_groups_are_sent() -> None:
    name = "system:serviceaccount:ns:robot"
    own = ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated")
    assert impersonate(impersonation_with(), ("User", name), user=ADMIN).groups == own
    user = impersonate(impersonation_with(), ("User", name), ("Group", "team"), user=ADMIN)
    assert user.groups == ("team", "system:authenticated")


def test_an_impersonated_node_is_in_the_group_of_nodes() -> None:
    user = impersonate(impersonation_with(), ("User", "system:node:n1"), user=ADMIN)
    assert user.groups == ("system:nodes", "system:authenticated")


def test_the_impersonated_anonymous_user_is_unauthenticated() -> None:
    assert impersonate(impersonation_with(), ("User", "system:anonymous"), user=ADMIN).groups == (
        "system:unauthenticated",
    )


@pytest.mark.parametrize("header", [("Group", "team"), ("Uid", "1"), ("Extra-A", "b")])
def test_impersonation_headers_without_a_user_are_rejected(header: tuple[str, str]) -> None:
    with pytest.raises(errors.BadRequest, match="without impersonating a user name"):
        parse_impersonated_user({f"Impersonate-{header[0]}": header[1]})
