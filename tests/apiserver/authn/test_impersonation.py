"""Acting as somebody else: who may, in which way, and who one is then."""

import asyncio

import pytest
from multidict import CIMultiDict

from sampan.apiserver.authn.impersonation import Impersonation, impersonated_user
from sampan.apiserver.authz import PrivilegedGroupAuthorizer, UnionAuthorizer
from sampan.apiserver.authz.rbac import RbacAuthorizer
from sampan.apiserver.request.call import Call, Query, UserInfo
from sampan.machinery import errors
from tests.apiserver.authz.rbac_objects import binding, index_of, role, rule

ANN = UserInfo("ann", groups=("system:authenticated",))
ADMIN = UserInfo("admin", groups=("system:masters",))
AUTHENTICATION = "authentication.k8s.io"


def impersonation(*rules: object) -> Impersonation:
    index = index_of(role("r", *rules), binding("b", "r", "User ann"))  # type: ignore[arg-type]
    return Impersonation(authorizer=UnionAuthorizer(PrivilegedGroupAuthorizer(), RbacAuthorizer(index=index)))


def become(who: Impersonation, *headers: tuple[str, str], user: UserInfo = ANN) -> UserInfo:
    named = CIMultiDict([(f"Impersonate-{name}", value) for name, value in headers])
    call = Call(method="GET", path="/metrics", query=Query(""), headers=named, user=user, verb="get")
    asyncio.run(who.apply(call))
    return call.user


def refusal(who: Impersonation, *headers: tuple[str, str]) -> str:
    with pytest.raises(errors.Forbidden) as refused:
        become(who, *headers)
    return refused.value.message


def test_without_headers_one_is_oneself() -> None:
    assert become(impersonation()) is ANN
    assert become(impersonation(), ("User", "")) is ANN


def test_the_verb_impersonate_allows_named_users() -> None:
    who = impersonation(rule("impersonate", "users", names="ben"))
    assert become(who, ("User", "ben")) == UserInfo("ben", "", ("system:authenticated",))
    assert "cannot impersonate resource" in refusal(who, ("User", "cy"))


def test_the_first_refusal_is_reported() -> None:
    message = refusal(impersonation(), ("User", "ben"))
    assert message == 'forbidden: User "ann" cannot impersonate-on:user-info:get path "/metrics"'


def test_the_constrained_way_is_for_what_is_done_and_as_whom() -> None:
    on, be = "impersonate-on:user-info:get", "impersonate:user-info"
    users = rule(be, "users", groups=AUTHENTICATION, names="ben")
    assert become(impersonation(rule(on, urls="/metrics"), users), ("User", "ben")).name == "ben"
    assert "impersonate-on" in refusal(impersonation(rule(on, urls="/logs"), users), ("User", "ben"))
    assert "impersonate:user-info resource" in refusal(impersonation(rule(on, urls="/metrics"), users), ("User", "cy"))


def test_the_constrained_way_never_leads_to_the_masters() -> None:
    every = rule("impersonate-on:user-info:get", urls="*"), rule("impersonate:user-info", "*", groups=AUTHENTICATION)
    message = refusal(impersonation(*every), ("User", "ben"), ("Group", "system:masters"))
    assert "impersonating the system:masters group is not allowed" in message
    assert become(impersonation(*every), ("User", "ben"), ("Group", "team")).groups == ("team", "system:authenticated")


def test_groups_uid_and_extra_each_need_their_right() -> None:
    headers = (("User", "ben"), ("Group", "team"), ("Uid", "7"), ("Extra-Example.com%2fColour", "red"))
    rules = [
        rule("impersonate", "users groups"),
        rule("impersonate", "uids userextras/example.com/colour", groups=AUTHENTICATION),
    ]
    user = become(impersonation(*rules), *headers)
    assert (user.uid, user.groups) == ("7", ("team", "system:authenticated"))
    assert user.extra == {"example.com/colour": ("red",)}
    assert refusal(impersonation(rules[0]), *headers)
    assert refusal(impersonation(rule("impersonate", "users"), rules[1]), *headers)


def test_a_service_account_has_its_groups_unless_others_are_given() -> None:
    name = "system:serviceaccount:ns:robot"
    own = ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated")
    assert become(impersonation(), ("User", name), user=ADMIN).groups == own
    user = become(impersonation(), ("User", name), ("Group", "team"), user=ADMIN)
    assert user.groups == ("team", "system:authenticated")


def test_an_impersonated_node_is_in_the_group_of_nodes() -> None:
    user = become(impersonation(), ("User", "system:node:n1"), user=ADMIN)
    assert user.groups == ("system:nodes", "system:authenticated")


def test_the_impersonated_anonymous_user_is_unauthenticated() -> None:
    assert become(impersonation(), ("User", "system:anonymous"), user=ADMIN).groups == ("system:unauthenticated",)


@pytest.mark.parametrize("header", [("Group", "team"), ("Uid", "1"), ("Extra-A", "b")])
def test_parts_without_a_name_are_refused(header: tuple[str, str]) -> None:
    with pytest.raises(errors.BadRequest, match="without impersonating a user name"):
        impersonated_user({f"Impersonate-{header[0]}": header[1]})
