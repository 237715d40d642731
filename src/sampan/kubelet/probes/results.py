"""Pure evaluation of probe results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from sampan.api.types.core_v1 import Container, Probe

Kind = Literal["Startup", "Liveness", "Readiness"]
KINDS: tuple[Kind, ...] = ("Startup", "Liveness", "Readiness")
_INITIAL: dict[Kind, bool | None] = {"Startup": None, "Liveness": True, "Readiness": False}


class ProbeResult(NamedTuple):
    """The result of one run of a probe."""

    is_success: bool
    text: str = ""
    is_warning: bool = False
    """Whether a success produces a warning event."""
    is_error: bool = False
    """Whether the probe could not be performed, so that the result is ignored."""


@dataclass(slots=True)
class ProbeTally:
    """The results for one instance of a container."""

    kind: Kind
    container_id: str = ""
    value: bool | None = None
    """The current state; None for a startup probe that has neither succeeded nor failed."""
    last: bool | None = None
    run: int = 0
    """Number of consecutive results equal to `last`."""
    is_on_hold: bool = False
    """Whether the probe is not run again for this instance of the container."""

    def start(self, container_id: str) -> None:
        self.container_id, self.value = container_id, _INITIAL[self.kind]
        self.last, self.run, self.is_on_hold = None, 0, False

    def count(self, is_success: bool, probe: Probe) -> bool:
        """Record a result. Return whether the state has changed."""
        self.run = self.run + 1 if self.last is is_success else 1
        self.last = is_success
        threshold = (probe.successThreshold or 1) if is_success else (probe.failureThreshold or 3)
        if self.run < threshold:
            return False
        if self.kind == "Startup" or (self.kind == "Liveness" and not is_success):
            self.is_on_hold, self.run = True, 0
        is_new = self.value is not is_success
        self.value = is_success
        return is_new


def probe_of(container: Container, kind: Kind) -> Probe | None:
    return {
        "Startup": container.startupProbe,
        "Liveness": container.livenessProbe,
        "Readiness": container.readinessProbe,
    }[kind]
