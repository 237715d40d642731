"""Pure decision whether a terminated container is restarted."""

from sampan.api.semantics.pods import init_and_main_containers
from sampan.api.types.core_v1 import Container, PodSpec
from sampan.runtimes import contract
from sampan.runtimes.contract import PodReport

ALWAYS, ON_FAILURE, NEVER = "Always", "OnFailure", "Never"
RESTART, RESTART_ALL = "Restart", "RestartAllContainers"


def restarts(container: Container, spec: PodSpec, exit_code: int) -> bool:
    """Whether the container is restarted after this exit code. Its own rules precede its own policy, which precedes the
    policy of the pod.
    """
    policy = container.restartPolicy
    if policy is None:
        return _by_policy(spec.restartPolicy, exit_code)
    return _by_rules(container, exit_code) or _by_policy(policy, exit_code)


def restarts_on_failure(spec: PodSpec) -> bool:
    return spec.restartPolicy != NEVER


def _by_policy(policy: str, exit_code: int) -> bool:
    return policy == ALWAYS or (policy == ON_FAILURE and exit_code != 0)


def may_restart_all(spec: PodSpec) -> bool:
    """Whether the exit of some container can restart all containers of the pod."""
    containers = init_and_main_containers(spec)
    return any(rule.action == RESTART_ALL for container in containers for rule in container.restartPolicyRules)


def restarts_all(spec: PodSpec, report: PodReport) -> bool:
    """Whether a container has exited in a way that restarts all containers of the pod."""
    for container in init_and_main_containers(spec):
        container_report = report.container(container.name) if container.restartPolicyRules else None
        if (
            container_report is not None
            and container_report.state == contract.EXITED
            and _rule(container, container_report.exit_code) == RESTART_ALL
        ):
            return True
    return False


def _by_rules(container: Container, exit_code: int) -> bool:
    return _rule(container, exit_code) in (RESTART, RESTART_ALL)


def _rule(container: Container, exit_code: int) -> str:
    """Return the action of the first matching rule, or an empty string."""
    for rule in container.restartPolicyRules:
        codes = rule.exitCodes
        if codes is not None and (exit_code in codes.values) == (codes.operator == "In"):
            return rule.action
    return ""
