"""Who may see and do what at the kubelet's port, as the API server says."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from sampan.api.types.authentication_v1 import TokenReview, TokenReviewStatus, UserInfo
from sampan.api.types.authorization_v1 import SubjectAccessReview, SubjectAccessReviewStatus
from sampan.kubelet.server.access import Access, subresources
from sampan.machinery import errors
from sampan.machinery.clock import VirtualClock
from sampan.machinery.delegation import Delegation
from tests.kubelet.server.plain import plain_node, serving


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("/pods", ["pods", "proxy"]),
        ("/runningpods/", ["pods", "proxy"]),
        ("/healthz/syncloop", ["healthz", "proxy"]),
        ("/configz", ["configz", "proxy"]),
        ("/stats/summary", ["stats"]),
        ("/metrics/cadvisor", ["metrics"]),
        ("/logs/syslog", ["log"]),
        ("/exec/a/b/c", ["proxy"]),
        ("/podsx", ["proxy"]),
        ("/statsx", ["proxy"]),
        ("/spec/", ["proxy"]),
    ],
)
def test_rights(path: str, wanted: list[str]) -> None:
    assert subresources(path) == wanted


class _Reviews:
    """An API server that knows two users, of whom one may see stats only."""

    def of(self, kind: type) -> "_Reviews":
        return self

    async def create(self, review: TokenReview | SubjectAccessReview) -> TokenReview | SubjectAccessReview:
        if isinstance(review, TokenReview):
            if review.spec.token == "down":
                raise errors.service_unavailable("down")
            known = review.spec.token in ("admin", "reader")
            user = UserInfo(username=review.spec.token)
            return TokenReview(status=TokenReviewStatus(authenticated=known, user=user))
        asked = review.spec.resourceAttributes
        assert asked is not None
        assert (asked.resource, asked.name) == ("nodes", "plain")
        may = review.spec.user == "admin" or asked.subresource in ("stats", "healthz")
        return SubjectAccessReview(status=SubjectAccessReviewStatus(allowed=may))


def test_over_the_wire(tmp_path: Path) -> None:
    async def main() -> None:
        delegation = Delegation(client=_Reviews(), clock=VirtualClock())  # type: ignore[arg-type]
        async with (
            asyncio.timeout(60),
            plain_node(tmp_path) as node,
            serving(node, access=Access(node="plain", delegation=delegation)) as url,
            aiohttp.ClientSession() as session,
        ):
            for token, path, code, text in (
                ("", "/pods", 401, "Unauthorized"),
                ("nobody", "/pods", 401, "Unauthorized"),
                ("down", "/pods", 401, "Unauthorized"),
                ("admin", "/configz", 200, None),
                ("reader", "/healthz", 200, "ok"),
                ("reader", "/stats/summary", 200, None),
                (
                    "reader",
                    "/pods",
                    403,
                    "Forbidden (user=reader, verb=get, resource=nodes, subresource(s)=[pods proxy])\n",
                ),
                (
                    "reader",
                    "/exec/a/b/c",
                    403,
                    "Forbidden (user=reader, verb=get, resource=nodes, subresource(s)=[proxy])\n",
                ),
            ):
                headers = {"Authorization": f"Bearer {token}"} if token else {}
                async with session.get(url + path, headers=headers) as answer:
                    assert answer.status == code, path
                    assert text is None or await answer.text() == text

    asyncio.run(main())
