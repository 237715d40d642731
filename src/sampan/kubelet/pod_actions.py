"""Pure decision what to start or stop for a pod (`computePodActions` in `pkg/kubelet/kuberuntime`)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sampan.api.semantics.pods import is_sidecar, sidecars_of
from sampan.api.types.core_v1 import Container, EphemeralContainer, Pod
from sampan.kubelet.restarts import restarts, restarts_on_failure
from sampan.runtimes import contract
from sampan.runtimes.contract import ContainerReport, PodReport


@dataclass(slots=True)
class PodActions:
    """A sandbox if one is needed and the containers to start in order, or the termination of the pod."""

    needs_sandbox: bool = False
    start: list[Container] = field(default_factory=list)
    kill_pod: bool = False
    """Whether to terminate the pod: its regular containers are done, or an init container has failed for good."""


def compute_pod_actions(pod: Pod, report: PodReport) -> PodActions:
    if not report.is_sandbox_ready:
        return _anew(pod, report)
    actions = PodActions()
    if _compute_init_actions(pod, report, actions):
        _compute_container_actions(pod, report, actions)
    return actions


def _anew(pod: Pod, report: PodReport) -> PodActions:
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


def _is_done(pod: Pod, container: Container, found: ContainerReport | None) -> bool:
    return found is not None and found.state == contract.EXITED and not restarts(container, pod.spec, found.exit_code)


def _compute_init_actions(pod: Pod, report: PodReport, actions: PodActions) -> bool:
    """Add the init containers to start. Return whether the regular containers may proceed."""
    is_initialized = _has_begun(pod, report)
    for container in pod.spec.initContainers:
        container_report = report.container(container.name)
        if is_sidecar(container):
            if container_report is None or container_report.state == contract.EXITED:
                actions.start.append(container)
            if not is_initialized and (container_report is None or not container_report.is_started):
                return False
        elif not is_initialized and not _has_initialized(pod, container, container_report, actions):
            return False
    return True


def _has_initialized(pod: Pod, container: Container, found: ContainerReport | None, actions: PodActions) -> bool:
    if found is not None and found.state == contract.EXITED:
        if found.exit_code == 0:
            return True
        if not restarts(container, pod.spec, found.exit_code):
            actions.kill_pod = True
            return False
        found = None
    if found is None:
        actions.start.append(container)
    return False


def _has_begun(pod: Pod, report: PodReport) -> bool:
    """Whether one of the pod's regular containers has been created in this sandbox."""
    names = {container.name for container in pod.spec.containers or ()}
    return any(container_report.name in names for container_report in report.containers)


def _compute_container_actions(pod: Pod, report: PodReport, actions: PodActions) -> None:
    kept = 0
    for container in pod.spec.containers or ():
        container_report = report.container(container.name)
        if _is_done(pod, container, container_report):
            continue
        kept += 1
        if container_report is None or container_report.state == contract.EXITED:
            actions.start.append(container)
    if not kept:
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
    sidecars = [container.name for container in sidecars_of(pod.spec)]
    others = [
        container_report.name
        for container_report in report.containers
        if container_report.name in running and container_report.name not in sidecars
    ]
    if others:
        return others
    return [name for name in reversed(sidecars) if name in running][:1]
