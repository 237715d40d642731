"""User impersonation: the Impersonate- headers of a request, and whether its user may use them.

There are several impersonation modes. Constrained impersonation first checks whether the user may perform the request
as such a user (`impersonate-on:MODE:VERB`) and then whether it may be that user (`impersonate:MODE`); the legacy mode
only checks `impersonate`. The mode that succeeded last for a user is tried first; if none succeeds, the first rejection
is returned.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

import msgspec

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.go_compat import gotext
from sampan.apiserver.authz.authorizer import Attributes, UnionAuthorizer, attributes_of, forbidden_error
from sampan.apiserver.request.call import (
    ANONYMOUS,
    AUTHENTICATED,
    MASTERS,
    UNAUTHENTICATED,
    Call,
    UserInfo,
    is_service_account_on,
    service_account_groups,
    split_service_account,
)
from sampan.host.bounded_cache import BoundedCache
from sampan.machinery import errors

_PREFIX, _EXTRA = "impersonate-", "impersonate-extra-"
_NODE = "system:node:"
_AUTHENTICATION = "authentication.k8s.io"
_WILDCARD_CHECK_THRESHOLD = 4
"""From this number of groups or extra values on, the permission for all of them (`*`) is checked first."""
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


@dataclass(slots=True)
class ImpersonatedUser:
    """The requested user, as named by the headers."""

    name: str = ""
    uid: str = ""
    groups: list[str] = field(default_factory=list)
    extra: dict[str, list[str]] = field(default_factory=dict)

    @property
    def is_name_alone(self) -> bool:
        return not (self.uid or self.groups or self.extra)

    def __str__(self) -> str:
        """Return the user as Go formats it."""
        extra = ", ".join(f"{gotext.quote(key)}:{_go_list(values)}" for key, values in sorted(self.extra.items()))
        shown = f"map[string][]string{{{extra}}}" if self.extra else "map[string][]string(nil)"
        name, uid = gotext.quote(self.name), gotext.quote(self.uid)
        return f"&user.DefaultInfo{{Name:{name}, UID:{uid}, Groups:{_go_list(self.groups)}, Extra:{shown}}}"


def _go_list(words: list[str]) -> str:
    return f"[]string{{{', '.join(map(gotext.quote, words))}}}" if words else "[]string(nil)"


def parse_impersonated_user(headers: Mapping[str, str]) -> ImpersonatedUser | None:
    """Return the requested user, or None without impersonation. Raise BadRequest for headers without a user name."""
    target: ImpersonatedUser | None = None
    for header, value in headers.items():
        if header[:12].lower() == _PREFIX:
            target = target or ImpersonatedUser()
            _take(target, header.lower(), value)
    if target is None or target.name:
        return target
    if target.is_name_alone:
        return None
    raise errors.bad_request(f"requested {target} without impersonating a user name")


def _take(target: ImpersonatedUser, header: str, value: str) -> None:
    if header == "impersonate-user":
        target.name = target.name or value
    elif header == "impersonate-uid":
        target.uid = target.uid or value
    elif header == "impersonate-group":
        target.groups.append(value)
    elif header.startswith(_EXTRA):
        key = header.removeprefix(_EXTRA)
        target.extra.setdefault(key if _BAD_ESCAPE.search(key) else unquote(key), []).append(value)


def node_of(username: str) -> str:
    """Return the node name of a node's user; empty for any other user."""
    name = username.removeprefix(_NODE) if username.startswith(_NODE) else ""
    return name if name and not names.dns1123_subdomain(name) else ""


class Impersonation:
    def __init__(self, *, authorizer: UnionAuthorizer) -> None:
        self._authorizer = authorizer
        self._last: BoundedCache[tuple[str, tuple[str, ...]], str] = BoundedCache(max_entries=4096)

    async def apply(self, call: Call) -> None:
        """Set the user of a classified request to the impersonated one. Raise Forbidden if that is not allowed."""
        target = parse_impersonated_user(call.headers)
        if target is not None:
            call.user = await self._user(target, attributes_of(call))

    async def _user(self, target: ImpersonatedUser, attributes: Attributes) -> UserInfo:
        key, first = (attributes.user.name, attributes.user.groups), None
        for mode in self._modes(target, attributes.user, self._last.get(key)):
            try:
                user = await self._impersonate(mode, target, attributes)
            except errors.Forbidden as refused:
                first = first or refused
                continue
            if self._last.get(key) != mode:
                self._last.keep(key, mode)
            return user
        raise first or errors.internal_error("all impersonation modes failed")

    @staticmethod
    def _modes(target: ImpersonatedUser, user: UserInfo, last: str | None) -> list[str]:
        modes = list(_list_modes(target, user))
        if last in modes:
            modes.remove(last)
            modes.insert(0, last)
        return modes

    async def _impersonate(self, mode: str, target: ImpersonatedUser, attributes: Attributes) -> UserInfo:
        if not mode:
            return await _ImpersonationCheck(
                self._authorizer, attributes.user, "impersonate", is_constrained=False
            ).user(target)
        await self._authorizer.require(
            msgspec.structs.replace(attributes, verb=f"impersonate-on:{mode}:{attributes.verb}")
        )
        return await _ImpersonationCheck(
            self._authorizer, attributes.user, f"impersonate:{mode}", is_constrained=True
        ).user(target)


def _list_modes(target: ImpersonatedUser, user: UserInfo) -> Iterator[str]:
    """Return the modes that apply to the requested user; "" is the legacy one."""
    node, account = node_of(target.name), split_service_account(target.name)
    if node and target.is_name_alone:
        if is_service_account_on(user, node):
            yield "associated-node"
        yield "arbitrary-node"
    elif account is not None and target.is_name_alone:
        yield "serviceaccount"
    elif not node and account is None:
        yield "user-info"
    yield ""


@dataclass(frozen=True, slots=True)
class _ImpersonationCheck:
    """Checks whether a user may impersonate another, with one verb."""

    authorizer: UnionAuthorizer
    requestor: UserInfo
    verb: str
    is_constrained: bool

    async def user(self, target: ImpersonatedUser) -> UserInfo:
        groups = await self._name(target)
        if target.uid:
            await self._require("uids", target.uid, group=_AUTHENTICATION)
        await self._groups(target.groups)
        await self._extra(target.extra)
        if target.name == ANONYMOUS:
            groups = _add_group(groups, UNAUTHENTICATED)
        elif UNAUTHENTICATED not in groups:
            groups = _add_group(groups, AUTHENTICATED)
        extra = {key: tuple(values) for key, values in target.extra.items()}
        return UserInfo(target.name, target.uid, tuple(groups), extra)

    async def _name(self, target: ImpersonatedUser) -> list[str]:
        """Check the permission to impersonate the user name, and return the groups that the name implies."""
        account, node = split_service_account(target.name), node_of(target.name)
        if account is not None:
            await self._require("serviceaccounts", account[1], namespace=account[0])
            return target.groups or service_account_groups(account[0])
        if node and self.is_constrained:
            await self._require("nodes", "*" if self.verb.endswith(":associated-node") else node)
            return ["system:nodes"]
        await self._require("users", target.name)
        return target.groups

    async def _groups(self, groups: list[str]) -> None:
        if self.is_constrained and "" in groups:
            raise self._refusal("groups", "", "impersonating the empty string group is not allowed")
        if self.is_constrained and MASTERS in groups:
            raise self._refusal("groups", MASTERS, "impersonating the system:masters group is not allowed")
        if self.is_constrained and len(groups) >= _WILDCARD_CHECK_THRESHOLD and await self._may("groups", "*"):
            return
        for group in groups:
            await self._require("groups", group)

    async def _extra(self, extra: dict[str, list[str]]) -> None:
        if self.is_constrained and (reason := _extra_error(extra)):
            raise self._refusal("userextras", "", reason, group=_AUTHENTICATION)
        is_large = sum(map(len, extra.values())) >= _WILDCARD_CHECK_THRESHOLD
        if (
            self.is_constrained
            and is_large
            and await self._may("userextras", "*", group=_AUTHENTICATION, subresource="*")
        ):
            return
        for key, values in extra.items():
            for value in values:
                await self._require("userextras", value, group=_AUTHENTICATION, subresource=key)

    def _attributes(
        self, resource: str, name: str, *, group: str | None = None, subresource: str = "", namespace: str = ""
    ) -> Attributes:
        own = _AUTHENTICATION if self.is_constrained else ""
        return Attributes(
            user=self.requestor,
            verb=self.verb,
            group=own if group is None else group,
            version="v1",
            resource=resource,
            subresource=subresource,
            namespace=namespace,
            name=name,
        )

    async def _require(
        self, resource: str, name: str, *, group: str | None = None, subresource: str = "", namespace: str = ""
    ) -> None:
        await self.authorizer.require(
            self._attributes(resource, name, group=group, subresource=subresource, namespace=namespace)
        )

    async def _may(self, resource: str, name: str, *, group: str | None = None, subresource: str = "") -> bool:
        return await self.authorizer.is_allowed(self._attributes(resource, name, group=group, subresource=subresource))

    def _refusal(self, resource: str, name: str, why: str, *, group: str | None = None) -> errors.ApiError:
        return forbidden_error(self._attributes(resource, name, group=group), why)


def _add_group(groups: list[str], group: str) -> list[str]:
    return groups if group in groups else [*groups, group]


def _join_errors(invalid: Sequence[FieldError]) -> str:
    texts = [*dict.fromkeys(map(str, invalid))]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _extra_error(extra: dict[str, list[str]]) -> str:
    for key, values in extra.items():
        if not key:
            return "impersonating the empty string key in extra is not allowed"
        if invalid := names.domain_prefixed_path(key, "extra.key"):
            return f"impersonating an invalid key in extra is not allowed: {_join_errors(invalid)}"
        if "" in values:
            return "impersonating the empty string value in extra is not allowed"
    return ""
