"""The way of a request, in one place and in the real order.

    authenticate -> classify -> authorize -> carry out (decode, default, convert -> mutating admission -> prepare ->
    validate -> validating admission -> store) -> answer

HTTP and the loopback transport both enter at `serve`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from sampan.api.scheme import Scheme
from sampan.apiserver.authorization import Chain
from sampan.apiserver.call import Call, User
from sampan.apiserver.endpoints import Endpoints
from sampan.apiserver.registry.served import Handler
from sampan.apiserver.results import Answer
from sampan.machinery import errors

Special = Callable[[Call], Awaitable[Answer]]
"""What serves a path that is no resource: health, discovery, OpenAPI, metrics, version."""


class Authenticator(Protocol):
    async def authenticate(self, call: Call) -> User:
        """Who sent the call; Unauthorized if it cannot be believed."""


class Pipeline:
    def __init__(
        self,
        *,
        scheme: Scheme,
        authenticator: Authenticator,
        authorizer: Chain,
        endpoints: Endpoints,
        special: Mapping[str, Special],
    ) -> None:
        self._scheme, self._authenticator, self._authorizer = scheme, authenticator, authorizer
        self.endpoints = endpoints
        self._special = special
        """By first path element; the longest path that fits is looked up by the handler itself."""

    async def serve(self, call: Call) -> Answer:
        call.user = await self._authenticator.authenticate(call)
        return await self.serve_as(call)

    async def serve_as(self, call: Call) -> Answer:
        """Serve a call whose user is known."""
        self.classify(call)
        self._authorizer.check(call)
        return await self._carry_out(call)

    def classify(self, call: Call) -> None:
        """Find out which resource the call is for, and its verb."""
        route = self._scheme.resolve(call.path)
        if route is None:
            call.verb = call.method.lower()
            return
        path = route.path
        call.resource, call.name = route.resource, path.name
        call.namespace, call.subresource = path.namespace, path.subresource
        call.tail = "/".join(path.rest)
        call.verb = _verb(call, is_old_watch=path.watch)

    async def _carry_out(self, call: Call) -> Answer:
        resource = call.resource
        if resource is None:
            handler = self._special.get(call.path.split("/", 2)[1])
            if handler is None:
                raise errors.generic(404)
            return await handler(call)
        served = self.endpoints.registry.served(resource)
        own = served.handlers.get(call.subresource)
        if own is not None:
            return await own(self.endpoints, call)
        subresource = resource.subresource(call.subresource) if call.subresource else None
        verbs = subresource.verbs if subresource is not None else resource.verbs
        if call.verb not in verbs:
            raise errors.generic(405)
        return await self._verb(call)

    async def _verb(self, call: Call) -> Answer:
        handler: Callable[[Call], Awaitable[Answer]] = getattr(self.endpoints, call.verb)
        return await handler(call)


_BY_METHOD = {"POST": "create", "PUT": "update", "PATCH": "patch"}


def _verb(call: Call, *, is_old_watch: bool) -> str:
    if call.method == "GET":
        if is_old_watch or (call.query.flag("watch") and not call.subresource):
            return "watch"
        return "get" if call.name else "list"
    if call.method == "DELETE":
        return "delete" if call.name else "deletecollection"
    if call.method == "POST" and call.name and not call.subresource:
        return "post"
    if call.method in ("PUT", "PATCH") and not call.name:
        return call.method.lower()
    return _BY_METHOD.get(call.method, call.method.lower())


__all__ = ["Authenticator", "Handler", "Pipeline", "Special"]
