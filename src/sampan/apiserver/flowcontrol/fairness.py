"""Flow schemas and priority levels combined: the flow of a request, its width in seats, and the seats of each level."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from sampan.api.types.flowcontrol_v1 import (
    FlowSchema,
    LimitedPriorityLevelConfiguration,
    NonResourcePolicyRule,
    PolicyRulesWithSubjects,
    PriorityLevelConfiguration,
    ResourcePolicyRule,
    Subject,
)
from sampan.api.values.integers import parse_int64
from sampan.apiserver.authz.authorizer import Attributes, attributes_of
from sampan.apiserver.flowcontrol.priority_level import PriorityLevel, PriorityLevelLimits, SeatBorrowing
from sampan.apiserver.registry.registry import Registry
from sampan.apiserver.request.call import Call, UserInfo, split_service_account
from sampan.host.bounded_cache import BoundedCache
from sampan.machinery.telemetry.metrics import Metrics, Sample


class Flow(msgspec.Struct, frozen=True):
    """A flow: the requests of one schema and, depending on its distinguisher, one user or namespace."""

    schema: str
    level: str
    key: str
    schema_uid: str = ""


class FlowSchemaMatcher:
    """The schemas in matching order. Which of them apply to a user is computed once and cached."""

    def __init__(self, schemas: Iterable[FlowSchema]) -> None:
        self._schemas = sorted(schemas, key=lambda schema: (schema.spec.matchingPrecedence, schema.metadata.name))
        self._of_users: BoundedCache[
            tuple[str, tuple[str, ...]], list[tuple[FlowSchema, list[PolicyRulesWithSubjects]]]
        ] = BoundedCache(max_entries=4096, max_entry_bytes=16 << 10, measure=lambda matches, limit: 200 * len(matches))

    def flow(self, attributes: Attributes) -> Flow | None:
        for schema, rules in self._select_for_user(attributes.user):
            if any(_fits(rule, attributes) for rule in rules):
                return _flow(schema, attributes)
        return None

    def _select_for_user(self, user: UserInfo) -> list[tuple[FlowSchema, list[PolicyRulesWithSubjects]]]:
        key = (user.name, user.groups)
        matches = self._of_users.get(key)
        if matches is None:
            every = (
                (flow_schema, [rule for rule in flow_schema.spec.rules if _is_for(rule, user)])
                for flow_schema in self._schemas
            )
            matches = [(schema, rules) for schema, rules in every if rules]
            self._of_users.keep(key, matches)
        return matches


def _flow(schema: FlowSchema, attributes: Attributes) -> Flow:
    spec, name = schema.spec, schema.metadata.name
    method = spec.distinguisherMethod.type if spec.distinguisherMethod is not None else ""
    apart = attributes.user.name if method == "ByUser" else attributes.namespace if method == "ByNamespace" else ""
    return Flow(name, spec.priorityLevelConfiguration.name, f"{name}\0{apart}", schema.metadata.uid)


def _is_for(rule: PolicyRulesWithSubjects, user: UserInfo) -> bool:
    return any(_is_subject(subject, user) for subject in rule.subjects or ())


def _is_subject(subject: Subject, user: UserInfo) -> bool:
    if subject.user is not None:
        return subject.user.name in ("*", user.name)
    if subject.group is not None:
        return subject.group.name == "*" or subject.group.name in user.groups
    account = subject.serviceAccount
    if account is None or (parts := split_service_account(user.name)) is None:
        return False
    namespace, name = parts
    return account.namespace == namespace and account.name in ("*", name)


def _fits(rule: PolicyRulesWithSubjects, attributes: Attributes) -> bool:
    if attributes.is_resource:
        return any(_fits_resource(policy_rule, attributes) for policy_rule in rule.resourceRules)
    return any(_fits_path(policy_rule, attributes) for policy_rule in rule.nonResourceRules)


def _fits_resource(rule: ResourcePolicyRule, attributes: Attributes) -> bool:
    if not (_has(rule.verbs, attributes.verb) and _has(rule.apiGroups, attributes.group)):
        return False
    if not _has(rule.resources, attributes.whole_resource):
        return False
    return _has(rule.namespaces, attributes.namespace) if attributes.namespace else rule.clusterScope


def _fits_path(rule: NonResourcePolicyRule, attributes: Attributes) -> bool:
    if not _has(rule.verbs, attributes.verb):
        return False
    return any(
        url in ("*", attributes.path) or (url.endswith("/*") and attributes.path.startswith(url[:-1]))
        for url in rule.nonResourceURLs or ()
    )


def _has(words: Sequence[str] | None, word: str) -> bool:
    return words is not None and len(words) > 0 and (words[0] == "*" or word in words)


class Fairness:
    def __init__(self, *, seats: int, width: Callable[[Call], int] = lambda call: 1) -> None:
        self.width = width
        """Returns how many seats a request occupies."""
        self._seats = seats
        """The total number of seats."""
        self._schemas = FlowSchemaMatcher(())
        self._uids: dict[str, str] = {}
        self.levels: dict[str, PriorityLevel] = {}
        """The limited levels by name; a level that is not here is exempt."""
        self._borrowing = SeatBorrowing(seats=seats)

    def configure(self, schemas: Iterable[FlowSchema], levels: Iterable[PriorityLevelConfiguration]) -> None:
        """Replace schemas and levels. Requests in a removed level still finish."""
        levels_by_name = {level.metadata.name: level for level in levels}
        self._uids = {name: level.metadata.uid for name, level in levels_by_name.items()}
        self._schemas = FlowSchemaMatcher(
            schema for schema in schemas if schema.spec.priorityLevelConfiguration.name in levels_by_name
        )
        limited = _limits(levels_by_name.values(), self._seats)
        for name, limits in limited.items():
            if name in self.levels:
                self.levels[name].configure(limits)
            else:
                self.levels[name] = PriorityLevel(name, limits)
        for name in self.levels.keys() - limited.keys():
            del self.levels[name]

    def flow(self, call: Call) -> Flow | None:
        """Return the flow of a classified request; None if no schema matches, or none is loaded yet."""
        return self._schemas.flow(attributes_of(call))

    def sample(self) -> None:
        """Sample the demand of the levels and adjust borrowing."""
        self._borrowing.sample(self.levels)

    def level_uid(self, flow: Flow) -> str:
        return self._uids.get(flow.level, "")


def _limits(levels: Iterable[PriorityLevelConfiguration], seats: int) -> dict[str, PriorityLevelLimits]:
    """Return the nominal seats of the limited levels in proportion to their shares, rounded up."""
    limited = {level.metadata.name: level.spec.limited for level in levels if level.spec.limited is not None}
    shares = {name: level.nominalConcurrencyShares or 0 for name, level in limited.items()}
    total = sum(shares.values()) or 1
    return {name: _level_limits(level, math.ceil(seats * shares[name] / total)) for name, level in limited.items()}


def _level_limits(spec: LimitedPriorityLevelConfiguration, seats: int) -> PriorityLevelLimits:
    lendable = round(seats * (spec.lendablePercent or 0) / 100)
    percent = spec.borrowingLimitPercent
    borrowable = None if percent is None else round(seats * percent / 100)
    queuing = spec.limitResponse.queuing
    if spec.limitResponse.type != "Queue" or queuing is None:
        return PriorityLevelLimits(seats, lendable=lendable, borrowable=borrowable)
    return PriorityLevelLimits(seats, queuing.queues, queuing.handSize, queuing.queueLengthLimit, lendable, borrowable)


_OBJECTS_PER_SEAT = 100
_MAX_SEATS = 10


def count_seats(call: Call, registry: Registry) -> int:
    if call.resource is None or call.name or not (call.verb == "list" or _wants_initial_events(call)):
        return 1
    count = registry.count(call.resource)
    limit = parse_int64(call.query.get("limit"))
    if limit is not None and 0 < limit < count:
        count = limit
    return min(max(math.ceil(count / _OBJECTS_PER_SEAT), 1), _MAX_SEATS)


def _wants_initial_events(call: Call) -> bool:
    """Whether the request is a watch that begins with all objects."""
    return call.verb == "watch" and call.query.get("resourceVersion") in ("", "0")


_VALUES: Sequence[tuple[str, str, str, Callable[[PriorityLevel], float]]] = (
    ("current_executing_requests", "gauge", "Requests in execution.", lambda level: level.executing),
    ("current_executing_seats", "gauge", "Seats occupied by executing requests.", lambda level: level.seats_in_use),
    ("current_inqueue_requests", "gauge", "Requests waiting in queues.", lambda level: level.waiting),
    ("current_inqueue_seats", "gauge", "Seats that queued requests need.", lambda level: level.seats_in_queue),
    (
        "current_limit_seats",
        "gauge",
        "Current seats of the priority level, with lending and borrowing.",
        lambda level: level.seats,
    ),
    (
        "nominal_limit_seats",
        "gauge",
        "Seats of the priority level without borrowing.",
        lambda level: level.limits.seats,
    ),
    ("lower_limit_seats", "gauge", "Seats that the priority level never lends.", lambda level: level.limits.least),
    ("dispatched_requests_total", "counter", "Requests dispatched to execution.", lambda level: level.dispatched),
    ("rejected_requests_total", "counter", "Requests rejected by flow control.", lambda level: level.refused),
)


def export_fairness(metrics: Metrics, fairness: Fairness) -> None:
    def reader_of(value: Callable[[PriorityLevel], float]) -> Callable[[], Iterator[Sample]]:
        return lambda: (((name,), value(level)) for name, level in fairness.levels.items())

    for name, kind, help, value in _VALUES:
        metrics.function(f"apiserver_flowcontrol_{name}", help, reader_of(value), ("priority_level",), kind)
