"""The health checks of a component behind paths such as /healthz, and their results as metrics for /metrics/slis.

The counterparts are `k8s.io/apiserver/pkg/server/healthz` and `k8s.io/component-base/metrics/prometheus/slis`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass

from sampan.api.go_compat import gotext
from sampan.machinery.telemetry.metrics import Metrics, export_start_time

log = logging.getLogger(__name__)

COMPONENT_PREFIX = "component/"
"""The start of the names of checks that report other components in the process of the API server."""
RESET_TEXT = "metrics reset\n"
"""The response to a DELETE of /metrics/slis."""


@dataclass(frozen=True, slots=True)
class HealthCheck:
    name: str
    """A unique name, which may contain slashes (`poststarthook/rbac/bootstrap-roles`)."""
    probe: Callable[[], Awaitable[None]]
    """Raises an exception if the check fails."""
    is_transient: bool = False
    """Whether failures during start and shutdown are expected and not logged as warnings."""
    is_required: bool = True
    """Whether the whole fails with this check. Other checks are only listed."""


@dataclass(frozen=True, slots=True)
class HealthReport:
    code: int
    text: str


class HealthMetrics:
    """The metrics of /metrics/slis: the last result of each check, and how often it had which result."""

    def __init__(self) -> None:
        self._make()

    def _make(self) -> None:
        self._metrics = Metrics()
        self._last = self._metrics.gauge(
            "kubernetes_healthcheck",
            "[STABLE] This metric records the result of a single healthcheck.",
            ("name", "type"),
        )
        self._totals = self._metrics.counter(
            "kubernetes_healthchecks_total",
            "[STABLE] This metric records the results of all healthcheck.",
            ("name", "type", "status"),
        )
        export_start_time(self._metrics)

    def observe(self, name: str, path: str, *, is_healthy: bool) -> None:
        """Record the result of a check. `path` is that of the request without the slash, such as livez."""
        self._last.labels(name, path).set(1 if is_healthy else 0)
        self._totals.labels(name, path, "success" if is_healthy else "error").inc()

    def reset(self) -> None:
        self._make()

    def text(self) -> str:
        return self._metrics.text()


async def _always_succeed() -> None:
    """Succeed always: the response itself proves that the component works."""


PING = HealthCheck("ping", _always_succeed)
LOG = HealthCheck("log", _always_succeed)


class HealthPath:
    """The checks behind one path."""

    def __init__(
        self, path: str, checks: Callable[[], Sequence[HealthCheck]], *, metrics: HealthMetrics | None = None
    ) -> None:
        """`path` is without slashes, such as healthz. `checks` returns the checks at the time of a request, in the
        order in which they are reported; without any there is a check that always succeeds."""
        self.path, self._checks, self._metrics = path, checks, metrics or HealthMetrics()

    def checks(self) -> Sequence[HealthCheck]:
        return self._checks() or (PING,)

    async def run(
        self, name: str = "", *, excluded: Collection[str] = (), is_verbose: bool = False, shows_reasons: bool = False
    ) -> HealthReport | None:
        """Run the named check, or all if the name is empty. Return None if there is no such check.

        The list of all checks is open to everybody, so reasons are withheld; `shows_reasons` adds those of the checks
        that are not required.
        """
        if not name:
            return await self._run_all(excluded, is_verbose, shows_reasons)
        check = next((check for check in self.checks() if check.name == name), None)
        if check is None:
            return None
        failure = await _failure_of(check)
        return HealthReport(500, f"internal server error: {failure}\n") if failure else HealthReport(200, "ok")

    async def _run_all(self, excluded: Collection[str], is_verbose: bool, shows_reasons: bool) -> HealthReport:
        checks, lines, failures = self.checks(), [], {}
        for check in checks:
            if check.name in excluded:
                lines.append(f"[+]{check.name} excluded: ok")
                continue
            failure = await _failure_of(check)
            self._metrics.observe(check.name, self.path, is_healthy=not failure)
            if not failure:
                lines.append(f"[+]{check.name} ok")
                continue
            if check.is_required:
                failures[check] = failure
            reason = failure if shows_reasons and not check.is_required else "reason withheld"
            lines.append(f"[-]{check.name} failed: {reason}")
        if unknown := sorted(set(excluded) - {check.name for check in checks}):
            names = ", ".join(gotext.quote(exclusion) for exclusion in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
        if failures:
            is_expected = all(check.is_transient for check in failures)
            text = "; ".join(f"{check.name}: {failure}" for check, failure in failures.items())
            log.log(logging.DEBUG if is_expected else logging.WARNING, "%s check failed: %s", self.path, text)
            return HealthReport(500, "\n".join([*lines, f"{self.path} check failed", ""]))
        if not is_verbose:
            return HealthReport(200, "ok")
        return HealthReport(200, "\n".join([*lines, f"{self.path} check passed", ""]))


async def _failure_of(check: HealthCheck) -> str:
    try:
        await check.probe()
    except Exception as error:
        return str(error) or type(error).__name__
    return ""
