"""Injected faults: requests that fail, take long, or lose their watch, selected by rules.

A fault acts in the request pipeline of the API server, after the request was classified and before it is authorized, so
that every client observes it, over HTTP and in this process. Requests of the control plane itself (controllers,
scheduler, kubelets) are exempt unless a rule includes them: a test that breaks the API for an operator seldom wants to
break the Deployment controller, which would also use up the count of the rule.
"""

from __future__ import annotations

import asyncio
import difflib
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from weakref import WeakKeyDictionary

from sampan.api.resources.resource import Resource
from sampan.api.scheme import Scheme
from sampan.apiserver.pipeline import Execute, Pipeline
from sampan.apiserver.request.call import Call
from sampan.apiserver.response.responses import ApiResponse, WatchResponse
from sampan.machinery import errors
from sampan.storage.cacher import VersionExpired, Watcher

_COMPONENT_PREFIX = "system:"
_NOT_COMPONENTS = ("system:anonymous", "system:unsecured", "system:serviceaccount:")
_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
_KUBE_SYSTEM_ACCOUNT = "system:serviceaccount:kube-system:"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRule:
    """Selects requests. All fields that are set must match; names may contain the wildcards `*` and `?`."""

    verb: str = "*"
    """get, list, watch, create, update, patch, delete or deletecollection; several are separated by commas."""
    resource: str = "*"
    """The plural name, with the group if it is needed to tell two apart: `deployments`, `widgets.example.com`."""
    subresource: str | None = None
    """For example `status`; the empty string selects requests for the object itself, None both."""
    namespace: str = "*"
    name: str = "*"
    user: str = ""
    """The name of the user; empty for all users except the components of the control plane."""
    count: int | None = None
    """How many requests are affected at most; None for no limit."""
    probability: float = 1.0
    """The share of selected requests that is affected."""
    seed: int = 0
    """The start of the random numbers for `probability`: the same seed affects the same requests in the order of their
    arrival."""

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 1:
            raise ValueError(f"probability: must be between 0 and 1, and is {self.probability}")
        if self.count is not None and self.count < 1:
            raise ValueError(f"count: must be at least 1, and is {self.count}")
        for verb in self._verb_patterns:
            _check_pattern("verb", verb, _VERBS)

    @property
    def _verb_patterns(self) -> list[str]:
        return [verb.strip() for verb in self.verb.split(",")]

    def check_resource(self, scheme: Scheme) -> None:
        """Raise ValueError if the rule selects no resource or subresource that is served. The resources of a group that
        is not served are accepted, because their definitions may be created later."""
        _, _, group = self.resource.partition(".")
        if group and not scheme.has_group(group):
            return
        _check_pattern("resource", self.resource, {name for item in scheme for name in (item.plural, item.qualified)})
        if self.subresource:
            selected = [item for item in scheme if self._selects_resource(item)]
            _check_pattern(
                "subresource", self.subresource, {part.name for item in selected for part in item.subresources}
            )

    def _selects_resource(self, resource: Resource) -> bool:
        return any(fnmatchcase(name, self.resource) for name in (resource.plural, resource.qualified))

    def selects(self, call: Call) -> bool:
        if call.resource is None:
            return False
        return (
            any(fnmatchcase(call.verb, verb) for verb in self._verb_patterns)
            and self._selects_resource(call.resource)
            and (self.subresource is None or call.subresource == self.subresource)
            and fnmatchcase(call.namespace, self.namespace)
            and fnmatchcase(call.name, self.name)
            and (fnmatchcase(call.user.name, self.user) if self.user else not _is_component(call.user.name))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultEffect:
    """What happens to a selected request."""

    error: int = 0
    """The HTTP status of the response instead of its result, 0 to execute the request."""
    message: str = ""
    retry_after_s: int = 0
    """The Retry-After header of the error; responses with 429 have at least 1."""
    latency_s: float = 0.0
    """How long the request is delayed, in real time."""
    watch_drop_s: float | None = None
    """After how many seconds a watch ends; None if it does not. Open watches end at once."""
    is_expired: bool = False
    """Whether the watch ends with the error 410 Expired, after which clients have to list again; otherwise the
    connection ends without an error."""

    def __post_init__(self) -> None:
        if self.error and not 400 <= self.error <= 599:
            raise ValueError(f"error: must be an HTTP status from 400 to 599, and is {self.error}")
        if not (self.error or self.latency_s or self.watch_drop_s is not None):
            raise ValueError("a fault needs an effect: error, latency_s or watch_drop")


class Fault:
    """An active fault: `with cluster.fault(…) as fault:`. `hits` counts the requests that it has affected."""

    def __init__(self, *, rule: FaultRule, effect: FaultEffect, injector: FaultInjector) -> None:
        self.rule, self.effect, self.hits = rule, effect, 0
        self._injector = injector
        self._random = random.Random(rule.seed)

    def __enter__(self) -> Fault:
        self._injector.add(self)
        return self

    def __exit__(self, *exc: object) -> None:
        self._injector.remove(self)

    def affects(self, call: Call) -> bool:
        """Return whether the fault affects a request. Count the request if it does."""
        if not self.rule.selects(call) or (self.rule.count is not None and self.hits >= self.rule.count):
            return False
        if self.rule.probability < 1 and self._random.random() >= self.rule.probability:
            return False
        self.hits += 1
        return True


class FaultInjector:
    """The active faults of one API server. `on_loop` runs a function on the event loop of the server, and returns when
    it is done. `scheme` has the resources that the server serves."""

    def __init__(self, *, pipeline: Pipeline, scheme: Scheme, on_loop: Callable[[Callable[[], None]], None]) -> None:
        self._pipeline, self._scheme, self._on_loop = pipeline, scheme, on_loop
        self._faults: list[Fault] = []
        self._watches: WeakKeyDictionary[Watcher, Call] = WeakKeyDictionary()
        pipeline.use_interceptor(self)

    def make_fault(self, rule: FaultRule, effect: FaultEffect) -> Fault:
        """Return a fault, which is not active yet. Raise ValueError if its rule selects no resource."""
        self._on_loop(lambda: rule.check_resource(self._scheme))
        return Fault(rule=rule, effect=effect, injector=self)

    def add(self, fault: Fault) -> None:
        self._on_loop(lambda: self._add(fault))

    def remove(self, fault: Fault) -> None:
        self._on_loop(lambda: self._faults.remove(fault))

    def _add(self, fault: Fault) -> None:
        self._faults.append(fault)
        if fault.effect.watch_drop_s is None:
            return
        for watcher, call in list(self._watches.items()):
            if not watcher.is_ended and fault.affects(call):
                _end_watch(watcher, fault.effect)

    async def intercept(self, call: Call, execute: Execute) -> ApiResponse:
        drop: FaultEffect | None = None
        for fault in list(self._faults):
            effect = fault.effect
            if effect.watch_drop_s is not None and call.verb != "watch":
                continue
            if not fault.affects(call):
                continue
            if effect.latency_s:
                await asyncio.sleep(effect.latency_s)
            if effect.error:
                raise _api_error(effect, call)
            drop = effect if effect.watch_drop_s is not None else drop
        response = await execute(call)
        if isinstance(response, WatchResponse):
            self._watches[response.watcher] = call
            if drop is not None:
                assert drop.watch_drop_s is not None
                asyncio.get_running_loop().call_later(drop.watch_drop_s, _end_watch, response.watcher, drop)
        return response


def _end_watch(watcher: Watcher, effect: FaultEffect) -> None:
    watcher.end(VersionExpired("too old resource version: injected fault") if effect.is_expired else None)


def _api_error(effect: FaultEffect, call: Call) -> errors.ApiError:
    assert call.resource is not None
    plural, group = call.resource.plural, call.resource.group
    message = effect.message or "injected fault"
    match effect.error:
        case 404:
            error: errors.ApiError = errors.not_found(plural, call.name, group=group)
        case 409 if call.verb == "create":
            error = errors.already_exists(plural, call.name, group=group)
        case 409:
            error = (
                errors.conflict(plural, call.name, effect.message, group=group)
                if effect.message
                else (errors.conflict(plural, call.name, group=group))
            )
        case 429:
            error = errors.too_many_requests(message, retry_after_s=max(1, effect.retry_after_s))
        case 500:
            error = errors.internal_error(message)
        case 503:
            error = errors.service_unavailable(message)
        case _:
            error = errors.generic(effect.error, message)
    if effect.retry_after_s:
        error.status.setdefault("details", {})["retryAfterSeconds"] = effect.retry_after_s
    return error


def _check_pattern(argument: str, pattern: str, names: Iterable[str]) -> None:
    """Raise ValueError, with the nearest name, if a pattern matches none of the names."""
    choices = sorted(names)
    if any(fnmatchcase(name, pattern) for name in choices):
        return
    nearest = difflib.get_close_matches(pattern, choices, n=1, cutoff=0.5)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"supported: {', '.join(choices)}"
    raise ValueError(f"{argument}: there is no {pattern!r}: {hint}")


def _is_component(user: str) -> bool:
    """Whether a user is a part of the control plane or a kubelet."""
    if user.startswith(_KUBE_SYSTEM_ACCOUNT):
        return True
    return user.startswith(_COMPONENT_PREFIX) and not user.startswith(_NOT_COMPONENTS)
