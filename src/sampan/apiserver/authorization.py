"""May this user do that? One verdict per call, from a chain of authorizers."""

from typing import Protocol

from sampan.apiserver.call import AUTHENTICATED, MASTERS, Call
from sampan.machinery import errors


class Authorizer(Protocol):
    def allows(self, call: Call) -> bool | None:
        """True allows, False refuses, None leaves it to the next."""


class Masters:
    """Members of system:masters may do everything."""

    def allows(self, call: Call) -> bool | None:
        return True if MASTERS in call.user.groups else None


class Discovery:
    """Every authenticated user may look at what there is; everybody at the server's health and version."""

    _OPEN = frozenset({"/healthz", "/livez", "/readyz", "/version", "/version/"})
    _PREFIXES = ("/api", "/apis", "/openapi", "/healthz/", "/livez/", "/readyz/")

    def allows(self, call: Call) -> bool | None:
        if call.resource is not None or call.verb != "get":
            return None
        if call.path in self._OPEN:
            return True
        if AUTHENTICATED in call.user.groups and call.path.startswith(self._PREFIXES):
            return True
        return None


class Chain:
    def __init__(self, *authorizers: Authorizer) -> None:
        self._authorizers = authorizers

    def check(self, call: Call) -> None:
        for authorizer in self._authorizers:
            verdict = authorizer.allows(call)
            if verdict is True:
                return
            if verdict is False:
                break
        raise refusal(call)


def refusal(call: Call) -> errors.ApiError:
    """The 403 in the real server's words."""
    who = f'User "{call.user.name}" cannot'
    if call.resource is None:
        return errors.forbidden("", "", f'{who} {call.verb} path "{call.path}"')
    resource = call.resource
    plural = f"{resource.plural}/{call.subresource}" if call.subresource else resource.plural
    where = f' in the namespace "{call.namespace}"' if call.namespace else " at the cluster scope"
    why = f'{who} {call.verb} resource "{plural}" in API group "{resource.group}"{where}'
    return errors.forbidden(resource.plural, call.name, why, group=resource.group)
