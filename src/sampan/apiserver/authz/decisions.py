"""What authorizers say, and the contract that they fulfil."""

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
    """Whatever the authorizers after this one would say."""
    UNDECIDED = 3


@dataclass(frozen=True, slots=True)
class Decision:
    verdict: Verdict
    reason: str = ""
    """Told to the user if the call is refused in the end, and by reviews."""
    fault: str = ""
    """Why there may be a wrong decision: somebody could not be asked."""


ALLOWED, UNDECIDED = Decision(Verdict.ALLOWED), Decision(Verdict.UNDECIDED)


class Authorizer(Protocol):
    def decide(self, asked: Attributes) -> Decision | Awaitable[Decision]:
        """Costs microseconds: it is asked on every call. One that has to ask elsewhere gives what to wait for, and only
        where it does not know."""


@dataclass(frozen=True, slots=True)
class Rights:
    """What a user may do in a namespace, as far as an authorizer can tell without being asked about each thing."""

    rules: Sequence[PolicyRule] = ()
    faults: Sequence[str] = ()
    is_whole: bool = True


@runtime_checkable
class Telling(Protocol):
    """An authorizer that can tell what somebody may do."""

    def rights_of(self, user: User, namespace: str) -> Rights: ...


@runtime_checkable
class Closing(Protocol):
    """An authorizer that holds connections."""

    async def close(self) -> None: ...


__all__ = ["ALLOWED", "UNDECIDED", "Authorizer", "Closing", "Decision", "Rights", "Telling", "Verdict"]
