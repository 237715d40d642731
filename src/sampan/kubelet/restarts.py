"""Whether a container that has ended is started again. Pure."""

from sampan.api.types.core_v1 import Container, PodSpec

ALWAYS, ON_FAILURE, NEVER = "Always", "OnFailure", "Never"


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


def _by_rules(container: Container, exit_code: int) -> bool:
    for rule in container.restartPolicyRules:
        codes = rule.exitCodes
        if codes is not None and (exit_code in codes.values) == (codes.operator == "In"):
            return rule.action == "Restart"
    return False


__all__ = ["ALWAYS", "NEVER", "ON_FAILURE", "is_sidecar", "restarts", "restarts_on_failure"]
