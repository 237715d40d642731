"""Pure decisions about which containers of a pod to start, restart or stop (`computePodActions` in
`pkg/kubelet/kuberuntime`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sampan.api.semantics.pods import init_and_main_containers, is_sidecar, sidecars_of
from sampan.api.types.core_v1 import Container, EphemeralContainer, Pod, PodSpec
from sampan.runtimes import contract
from sampan.runtimes.contract import ContainerReport, PodReport

ALWAYS, ON_FAILURE, NEVER = "Always", "OnFailure", "Never"
RESTART, RESTART_ALL = "Restart", "RestartAllContainers"


@dataclass(slots=True)
class PodActions:
    """The actions for a pod: create a sandbox if it needs one and start containers in order, or terminate the pod."""

    needs_sandbox: bool = False
    start: list[Container] = field(default_factory=list)
    kill_pod: bool = False
    """Whether to terminate the pod: its regular containers are done, or an init container has failed for good."""


def compute_pod_actions(pod: Pod, report: PodReport) -> PodActions:
    if not report.is_sandbox_ready:
        return _compute_actions_without_sandbox(pod, report)
    actions = PodActions()
    if _compute_init_actions(pod, report, actions):
        _compute_container_actions(pod, report, actions)
    return actions


def _compute_actions_without_sandbox(pod: Pod, report: PodReport) -> PodActions:
    """Return the actions for a pod without a ready sandbox: it starts again from the first init container, unless its
    restart policy forbids it or its containers are done.
    """
    if report.sandboxes and report.containers and not restarts_on_failure(pod.spec):
        return PodActions(kill_pod=True)
    mains = [
        container
        for container in pod.spec.containers or ()
        if not _is_done(pod, container, report.container(container.name))
    ]
    if not mains and report.containers:
        return PodActions(kill_pod=True)
    return PodActions(needs_sandbox=True, start=pod.spec.initContainers[:1] or mains)


def _is_done(pod: Pod, container: Container, report: ContainerReport | None) -> bool:
    """Whether the container has exited and is not restarted."""
    return (
        report is not None and report.state == contract.EXITED and not restarts(container, pod.spec, report.exit_code)
    )


def _compute_init_actions(pod: Pod, report: PodReport, actions: PodActions) -> bool:
    """Add the init containers to start. Return whether the regular containers may proceed."""
    is_initialized = _has_started(pod, report)
    for container in pod.spec.initContainers:
        container_report = report.container(container.name)
        if is_sidecar(container):
            if container_report is None or container_report.state == contract.EXITED:
                actions.start.append(container)
            if not is_initialized and (container_report is None or not container_report.is_started):
                return False
        elif not is_initialized and not _is_complete(container_report):
            _compute_init_action(pod, container, container_report, actions)
            return False
    return True


def _is_complete(report: ContainerReport | None) -> bool:
    return report is not None and report.state == contract.EXITED and report.exit_code == 0


def _compute_init_action(pod: Pod, container: Container, report: ContainerReport | None, actions: PodActions) -> None:
    """Start, restart or await an init container, or terminate the pod if it has failed for good."""
    if report is None or (report.state == contract.EXITED and restarts(container, pod.spec, report.exit_code)):
        actions.start.append(container)
    elif report.state == contract.EXITED:
        actions.kill_pod = True


def _has_started(pod: Pod, report: PodReport) -> bool:
    """Whether one of the pod's regular containers has been created in this sandbox."""
    names = {container.name for container in pod.spec.containers or ()}
    return any(container_report.name in names for container_report in report.containers)


def _compute_container_actions(pod: Pod, report: PodReport, actions: PodActions) -> None:
    running_count = 0
    for container in pod.spec.containers or ():
        container_report = report.container(container.name)
        if _is_done(pod, container, container_report):
            continue
        running_count += 1
        if container_report is None or container_report.state == contract.EXITED:
            actions.start.append(container)
    if not running_count:
        actions.kill_pod, actions.start = True, []


def ephemeral_to_start(pod: Pod, report: PodReport) -> Sequence[EphemeralContainer]:
    return [container for container in pod.spec.ephemeralContainers if report.container(container.name) is None]


def stop_order(pod: Pod, report: PodReport) -> Sequence[str]:
    """Return the containers to stop now: first all but the sidecars, then the sidecars one by one in reverse order."""
    running = {
        container_report.name
        for container_report in report.containers
        if container_report.state in (contract.RUNNING, contract.CREATED)
    }
    sidecars = {container.name: None for container in sidecars_of(pod.spec)}
    others = [
        container_report.name
        for container_report in report.containers
        if container_report.name in running and container_report.name not in sidecars
    ]
    if others:
        return others
    return [name for name in reversed(sidecars) if name in running][:1]


# -- restart policies ------------------------------------------------------------------------------------------------


def restarts(container: Container, spec: PodSpec, exit_code: int) -> bool:
    """Whether the container is restarted after this exit code. Its own rules precede its own policy, which precedes the
    policy of the pod.
    """
    policy = container.restartPolicy
    if policy is None:
        return _should_restart_by_policy(spec.restartPolicy, exit_code)
    return _should_restart_by_rules(container, exit_code) or _should_restart_by_policy(policy, exit_code)


def restarts_on_failure(spec: PodSpec) -> bool:
    return spec.restartPolicy != NEVER


def _should_restart_by_policy(policy: str, exit_code: int) -> bool:
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


def _should_restart_by_rules(container: Container, exit_code: int) -> bool:
    return _rule(container, exit_code) in (RESTART, RESTART_ALL)


def _rule(container: Container, exit_code: int) -> str:
    """Return the action of the first matching rule, or an empty string."""
    for rule in container.restartPolicyRules:
        codes = rule.exitCodes
        if codes is not None and (exit_code in codes.values) == (codes.operator == "In"):
            return rule.action
    return ""
