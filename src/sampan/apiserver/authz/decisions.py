"""The decisions of authorizers, and the contract of an authorizer."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, runtime_checkable

from sampan.api.types.rbac_v1 import PolicyRule
from sampan.apiserver.authz.attributes import Attributes
from sampan.apiserver.call import User


class Verdict(Enum):
    ALLOWED = 1
    REFUSED = 2
    """Denied, whatever later authorizers would decide."""
    UNDECIDED = 3


@dataclass(frozen=True, slots=True)
class Decision:
    verdict: Verdict
    reason: str = ""
    """Shown to the user if the request is rejected in the end, and in access reviews."""
    fault: str = ""
    """An error that may have affected the decision, such as an unreachable webhook."""


ALLOWED, UNDECIDED = Decision(Verdict.ALLOWED), Decision(Verdict.UNDECIDED)


class Authorizer(Protocol):
    def decide(self, asked: Attributes) -> Decision | Awaitable[Decision]:
        """Return the decision. This runs on every request, so it must take only microseconds. An authorizer that calls
        another service returns an awaitable, and only if the decision is not cached."""


@dataclass(frozen=True, slots=True)
class Rights:
    """The rules of a user in a namespace, as far as an authorizer can list them."""

    rules: Sequence[PolicyRule] = ()
    faults: Sequence[str] = ()
    is_whole: bool = True


@runtime_checkable
class Telling(Protocol):
    """An authorizer that can list the rules of a user."""

    def rights_of(self, user: User, namespace: str) -> Rights: ...


@runtime_checkable
class Closing(Protocol):
    """An authorizer that holds connections."""

    async def close(self) -> None: ...
