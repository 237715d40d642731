import asyncio

import pytest

from sampan.api.scheme import builtin_scheme
from sampan.apiserver.authz import (
    AlwaysAllowPaths,
    Attributes,
    AuthzDecision,
    AuthzResult,
    PrivilegedGroupAuthorizer,
    UnionAuthorizer,
)
from sampan.apiserver.pipeline import Pipeline
from sampan.apiserver.request.call import Call, Query, UserInfo
from sampan.machinery import errors

ANONYMOUS = UserInfo("system:anonymous", "", ("system:unauthenticated",))
JOE = UserInfo("joe", "", ("dev", "system:authenticated"))
ADMIN = UserInfo("admin", "", ("system:masters", "system:authenticated"))


class _Classifier(Pipeline):
    def __init__(self) -> None:
        self._scheme = builtin_scheme()


def _call(user: UserInfo, target: str, method: str = "GET") -> Call:
    path, _, query = target.partition("?")
    call = Call(method=method, path=path, query=Query(query), headers={}, user=user)
    _Classifier().classify(call)
    return call


def _is_allowed(user: UserInfo, target: str, method: str = "GET") -> bool:
    try:
        asyncio.run(UnionAuthorizer(PrivilegedGroupAuthorizer(), AlwaysAllowPaths()).check(_call(user, target, method)))
    except errors.Forbidden:
        return False
    return True


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_health_endpoints_are_allowed_for_all_users(path: str) -> None:
    assert _is_allowed(ANONYMOUS, path)
    assert _is_allowed(JOE, path)


@pytest.mark.parametrize(
    "path",
    ["/", "/apiary", "/healthz/ping", "/livez/", "/metrics", "/api/v1/pods", "/apis/no/v1/things", "/debug/pprof"],
)
def test_other_paths_are_allowed_only_for_system_masters(path: str) -> None:
    assert not _is_allowed(JOE, path)
    assert not _is_allowed(ANONYMOUS, path)
    assert _is_allowed(ADMIN, path)
    assert _is_allowed(ADMIN, path, "DELETE")


@pytest.mark.parametrize(
    ("method", "target", "message"),
    [
        ("GET", "/metrics", 'forbidden: User "joe" cannot get path "/metrics"'),
        ("POST", "/debug/x", 'forbidden: User "joe" cannot post path "/debug/x"'),
        (
            "GET",
            "/api/v1/nodes",
            'nodes is forbidden: User "joe" cannot list resource "nodes" in API group "" at the cluster scope',
        ),
        (
            "GET",
            "/api/v1/nodes/n/status",
            'nodes "n" is forbidden: User "joe" cannot get resource "nodes/status" in API group "" '
            "at the cluster scope",
        ),
        (
            "DELETE",
            "/api/v1/namespaces/x",
            'namespaces "x" is forbidden: User "joe" cannot delete resource "namespaces" in API group "" '
            'in the namespace "x"',
        ),
        (
            "DELETE",
            "/apis/apps/v1/namespaces/x/deployments",
            'deployments.apps is forbidden: User "joe" cannot deletecollection resource "deployments" '
            'in API group "apps" in the namespace "x"',
        ),
        (
            "GET",
            "/api/v1/namespaces/x/pods?watch=true&fieldSelector=metadata.name%3Dabc,status.phase%3DRunning",
            'pods "abc" is forbidden: User "joe" cannot watch resource "pods" in API group "" in the namespace "x"',
        ),
        (
            "GET",
            "/apis/no.example.com/v1/namespaces/x/things/a",
            'things.no.example.com "a" is forbidden: User "joe" cannot get resource "things" '
            'in API group "no.example.com" in the namespace "x"',
        ),
        (
            "GET",
            "/api/v1/watch/namespaces/x/pods/a",
            'pods "a" is forbidden: User "joe" cannot watch resource "pods" in API group "" in the namespace "x"',
        ),
    ],
)
def test_forbidden_message_describes_the_request(method: str, target: str, message: str) -> None:
    with pytest.raises(errors.Forbidden) as raised:
        asyncio.run(UnionAuthorizer(PrivilegedGroupAuthorizer(), AlwaysAllowPaths()).check(_call(JOE, target, method)))
    assert raised.value.message == message


def test_usernames_are_escaped_in_forbidden_messages() -> None:
    with pytest.raises(errors.Forbidden, match=r'User "a \\"b\\" &lt;c&gt;" cannot'):
        asyncio.run(UnionAuthorizer().check(_call(UserInfo('a "b" <c>'), "/api/v1/nodes")))


class _FixedAuthorizer:
    def __init__(self, decision: AuthzDecision, reason: str = "", name: str = "fixed") -> None:
        self.name = name
        self._decision = AuthzResult(decision, reason)

    def authorize(self, attributes: Attributes) -> AuthzResult:
        return self._decision


def test_first_authorizer_with_an_opinion_decides() -> None:
    call = _call(JOE, "/metrics")
    asyncio.run(
        UnionAuthorizer(
            _FixedAuthorizer(AuthzDecision.NO_OPINION),
            _FixedAuthorizer(AuthzDecision.ALLOW),
            _FixedAuthorizer(AuthzDecision.DENY),
        ).check(call)
    )
    with pytest.raises(errors.Forbidden):
        asyncio.run(
            UnionAuthorizer(_FixedAuthorizer(AuthzDecision.DENY), _FixedAuthorizer(AuthzDecision.ALLOW)).check(call)
        )
    with pytest.raises(errors.Forbidden, match=r'/metrics": one: because\ntwo: and also$'):
        asyncio.run(
            UnionAuthorizer(
                _FixedAuthorizer(AuthzDecision.NO_OPINION, "because", "one"),
                _FixedAuthorizer(AuthzDecision.NO_OPINION, "and also", "two"),
            ).check(call)
        )
