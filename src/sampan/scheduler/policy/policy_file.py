"""Policy files (kind Policy, apiVersion v1; JSON or YAML), parsed with errors that name the field."""

from __future__ import annotations

from typing import Any

import msgspec
import yaml


class PolicyError(ValueError):
    """An invalid policy; the message names the field."""


class _Strict(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    pass


class ServiceAffinity(_Strict):
    labels: list[str]


class LabelsPresence(_Strict):
    labels: list[str]
    presence: bool = False


class PredicateArgument(_Strict):
    serviceAffinity: ServiceAffinity | None = None
    labelsPresence: LabelsPresence | None = None


class Predicate(_Strict):
    name: str
    argument: PredicateArgument | None = None


class ServiceAntiAffinity(_Strict):
    label: str


class LabelPreference(_Strict):
    label: str
    presence: bool = False


class RatioPoint(_Strict):
    utilization: int
    score: int


class RatioResource(_Strict):
    name: str
    weight: int = 1


class RequestedToCapacityRatio(_Strict):
    shape: list[RatioPoint]
    resources: list[RatioResource] = []


class PriorityArgument(_Strict):
    serviceAntiAffinity: ServiceAntiAffinity | None = None
    labelPreference: LabelPreference | None = None
    requestedToCapacityRatioArguments: RequestedToCapacityRatio | None = None


class Priority(_Strict):
    name: str
    weight: int
    argument: PriorityArgument | None = None


class Policy(_Strict):
    kind: str = "Policy"
    apiVersion: str = "v1"
    predicates: list[Predicate] | None = None
    """None stands for the default predicates; with an empty list only the mandatory ones apply."""
    priorities: list[Priority] | None = None
    extenders: list[dict[str, Any]] = []
    hardPodAffinitySymmetricWeight: int | None = None
    alwaysCheckAllPredicates: bool = False
    """Accepted without effect: `sampan why` evaluates all predicates in any case."""


def parse_policy(text: str) -> Policy:
    try:
        value = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise PolicyError(" ".join(str(error).split())) from error
    try:
        policy = msgspec.convert(value, Policy)
    except msgspec.ValidationError as error:
        raise PolicyError(_with_field(str(error))) from error
    if (policy.kind, policy.apiVersion) != ("Policy", "v1"):
        raise PolicyError(f"kind: want Policy of v1, not {policy.kind} of {policy.apiVersion}")
    return policy


def _with_field(text: str) -> str:
    """Convert the message "what - at `$.field`" to "field: what"."""
    what, at, field = text.rpartition(" - at `$.")
    return f"{field.rstrip('`')}: {what}" if at else text
