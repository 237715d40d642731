"""Whether a container that has ended is started again. Pure."""

from sampan.api.types.core_v1 import Container, PodSpec
from sampan.runtimes import contract
from sampan.runtimes.contract import PodReport

ALWAYS, ON_FAILURE, NEVER = "Always", "OnFailure", "Never"
RESTART, RESTART_ALL = "Restart", "RestartAllContainers"


def is_sidecar(container: Container) -> bool:
    """Of an init container: that it goes on running beside the others."""
    return container.restartPolicy == ALWAYS


def restarts(container: Container, spec: PodSpec, exit_code: int) -> bool:
    """The container's own policy counts more than the pod's, and its rules more than both."""
    policy = container.restartPolicy
    if policy is None:
        return _by_policy(spec.restartPolicy, exit_code)
    return _by_rules(container, exit_code) or _by_policy(policy, exit_code)


def restarts_on_failure(spec: PodSpec) -> bool:
    return spec.restartPolicy != NEVER


def _by_policy(policy: str, exit_code: int) -> bool:
    return policy == ALWAYS or (policy == ON_FAILURE and exit_code != 0)


def may_restart_all(spec: PodSpec) -> bool:
    """Whether the end of a container can have all of them begin anew."""
    every = (*spec.initContainers, *(spec.containers or ()))
    return any(rule.action == RESTART_ALL for each in every for rule in each.restartPolicyRules)


def restarts_all(spec: PodSpec, report: PodReport) -> bool:
    """Whether a container has ended so that all begin anew."""
    for each in (*spec.initContainers, *(spec.containers or ())):
        found = report.container(each.name) if each.restartPolicyRules else None
        if found is not None and found.state == contract.EXITED and _rule(each, found.exit_code) == RESTART_ALL:
            return True
    return False


def _by_rules(container: Container, exit_code: int) -> bool:
    return _rule(container, exit_code) in (RESTART, RESTART_ALL)


def _rule(container: Container, exit_code: int) -> str:
    """What the first rule says that matches; empty: none does."""
    for rule in container.restartPolicyRules:
        codes = rule.exitCodes
        if codes is not None and (exit_code in codes.values) == (codes.operator == "In"):
            return rule.action
    return ""


__all__ = [
    "ALWAYS",
    "NEVER",
    "ON_FAILURE",
    "is_sidecar",
    "may_restart_all",
    "restarts",
    "restarts_all",
    "restarts_on_failure",
]
