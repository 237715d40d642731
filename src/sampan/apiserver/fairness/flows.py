"""The matching of requests to flow schemas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from sampan.api.types.flowcontrol_v1 import (
    FlowSchema,
    NonResourcePolicyRule,
    PolicyRulesWithSubjects,
    ResourcePolicyRule,
    Subject,
)
from sampan.apiserver.auth.accounts import split_account
from sampan.apiserver.authz.attributes import Attributes
from sampan.apiserver.call import User

_MOST_USERS = 4096


class Flow(msgspec.Struct, frozen=True):
    """A flow: the requests of one schema and, depending on its distinguisher, one user or namespace."""

    schema: str
    level: str
    key: str
    schema_uid: str = ""


class Schemas:
    """The schemas in matching order. Which of them apply to a user is computed once and cached."""

    def __init__(self, schemas: Iterable[FlowSchema]) -> None:
        self._schemas = sorted(schemas, key=lambda schema: (schema.spec.matchingPrecedence, schema.metadata.name))
        self._of_users: dict[tuple[str, tuple[str, ...]], list[tuple[FlowSchema, list[PolicyRulesWithSubjects]]]] = {}

    def flow(self, asked: Attributes) -> Flow | None:
        for schema, rules in self._of_user(asked.user):
            if any(_fits(rule, asked) for rule in rules):
                return _flow(schema, asked)
        return None

    def _of_user(self, user: User) -> list[tuple[FlowSchema, list[PolicyRulesWithSubjects]]]:
        key = (user.name, user.groups)
        matches = self._of_users.get(key)
        if matches is None:
            if len(self._of_users) >= _MOST_USERS:
                self._of_users.clear()
            every = (
                (flow_schema, [rule for rule in flow_schema.spec.rules if _is_for(rule, user)])
                for flow_schema in self._schemas
            )
            matches = self._of_users[key] = [(schema, rules) for schema, rules in every if rules]
        return matches


def _flow(schema: FlowSchema, asked: Attributes) -> Flow:
    spec, name = schema.spec, schema.metadata.name
    method = spec.distinguisherMethod.type if spec.distinguisherMethod is not None else ""
    apart = asked.user.name if method == "ByUser" else asked.namespace if method == "ByNamespace" else ""
    return Flow(name, spec.priorityLevelConfiguration.name, f"{name}\0{apart}", schema.metadata.uid)


def _is_for(rule: PolicyRulesWithSubjects, user: User) -> bool:
    return any(_is_subject(subject, user) for subject in rule.subjects or ())


def _is_subject(subject: Subject, user: User) -> bool:
    if subject.user is not None:
        return subject.user.name in ("*", user.name)
    if subject.group is not None:
        return subject.group.name == "*" or subject.group.name in user.groups
    account = subject.serviceAccount
    if account is None or (parts := split_account(user.name)) is None:
        return False
    namespace, name = parts
    return account.namespace == namespace and account.name in ("*", name)


def _fits(rule: PolicyRulesWithSubjects, asked: Attributes) -> bool:
    if asked.is_resource:
        return any(_fits_resource(policy_rule, asked) for policy_rule in rule.resourceRules)
    return any(_fits_path(policy_rule, asked) for policy_rule in rule.nonResourceRules)


def _fits_resource(rule: ResourcePolicyRule, asked: Attributes) -> bool:
    if not (_has(rule.verbs, asked.verb) and _has(rule.apiGroups, asked.group)):
        return False
    if not _has(rule.resources, asked.whole_resource):
        return False
    return _has(rule.namespaces, asked.namespace) if asked.namespace else rule.clusterScope


def _fits_path(rule: NonResourcePolicyRule, asked: Attributes) -> bool:
    if not _has(rule.verbs, asked.verb):
        return False
    return any(
        url in ("*", asked.path) or (url.endswith("/*") and asked.path.startswith(url[:-1]))
        for url in rule.nonResourceURLs or ()
    )


def _has(words: Sequence[str] | None, word: str) -> bool:
    return words is not None and len(words) > 0 and (words[0] == "*" or word in words)
