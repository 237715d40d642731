"""The steps of a pod on a real node, in order, each recorded in the flight recorder."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from sampan.api.semantics.pods import AnyContainer, as_container, grace_period_s, sidecars_of
from sampan.api.types.core_v1 import Container, EphemeralContainer, Pod, PodStatus
from sampan.kubelet.agent import checks
from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.agent.messages import Messages
from sampan.kubelet.agent.node_plugins import NodePlugins
from sampan.kubelet.agent.orphans import remove_folder
from sampan.kubelet.agent.own_pods import OwnPods
from sampan.kubelet.agent.pulling import ImageManager
from sampan.kubelet.agent.resizer import Resizer
from sampan.kubelet.agent.steps import Steps
from sampan.kubelet.agent.stopping import Stopper
from sampan.kubelet.cgroups import PodCgroups
from sampan.kubelet.container_config.builder import CONFIG_ERROR, ContainerConfigBuilder, ContainerInputs
from sampan.kubelet.hooks import HookFailed, Hooks
from sampan.kubelet.objects import PodObjects
from sampan.kubelet.pod_events import PodEvents
from sampan.kubelet.pod_status import Verdict
from sampan.kubelet.probes import ProbeManager
from sampan.kubelet.provision import AlreadyTold, Kill
from sampan.kubelet.racing import GivenUp, unless
from sampan.kubelet.records import PodRecord
from sampan.kubelet.restarts import restarts_on_failure
from sampan.kubelet.starting import RUN_ERROR
from sampan.kubelet.volumes import LimitExceeded, StillWaiting, VolumeManager
from sampan.machinery.events import NORMAL, WARNING
from sampan.runtimes import contract
from sampan.runtimes.contract import ContainerReport, PodReport, Runtime, RuntimeFailure

log = logging.getLogger(__name__)

T = TypeVar("T")

POST_START_FAILED = "PostStartHookError"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The collaborators that carry out the steps."""

    runtime: Runtime
    environment: ContainerConfigBuilder
    images: ImageManager
    volumes: VolumeManager
    groups: PodCgroups
    objects: PodObjects
    probes: ProbeManager
    hooks: Hooks
    messages: Messages
    events: PodEvents
    resizer: Resizer
    plugins: NodePlugins
    own_pods: OwnPods
    stopper: Stopper
    steps: Steps


class PodProvision:
    def __init__(self, *, config: AgentConfig, parts: Parts, refusal: Callable[[Pod], Verdict | None]) -> None:
        self._config, self._parts, self._refusal = config, parts, refusal

    def refusal(self, pod: Pod) -> Verdict | None:
        return self._refusal(pod)

    def forbidden(self, pod: Pod) -> Verdict | None:
        verdict = checks.forbidden(pod, self._config)
        if verdict is not None:
            self._parts.steps.note(pod, "check permissions", verdict.message)
        return verdict

    async def admit(self, record: PodRecord) -> Verdict | None:
        report = self._parts.runtime.pod_report(record.pod)
        return await self._parts.plugins.admit(record.pod, is_running=bool(report.containers))

    def told(self, pod: Pod, status: PodStatus) -> PodStatus:
        return self._parts.volumes.with_mount_statuses(pod, self._parts.plugins.told(pod, status))

    # -- state -------------------------------------------------------------------------------------------------------

    def report(self, pod: Pod) -> PodReport:
        parts = self._parts
        return parts.probes.apply_results(pod, parts.messages.added(pod, parts.runtime.pod_report(pod)))

    def to_kill(self, record: PodRecord, report: PodReport) -> Sequence[Kill]:
        pod = record.pod
        if pod.metadata.deletionTimestamp is not None:
            return ()
        sidecars = sidecars_of(pod.spec)
        kills = []
        for container in (*sidecars, *(pod.spec.containers or ())):
            present = report.container(container.name)
            if present is None or present.state != contract.RUNNING:
                continue
            if container.name in (record.restarts or ()):
                text = f"Container {container.name} resize requires restart"
                kills.append(Kill(container, present.id, text))
            elif (kill := self._kill(pod, container, present, is_init=container in sidecars)) is not None:
                kills.append(kill)
        return kills

    def _kill(self, pod: Pod, container: Container, present: ContainerReport, *, is_init: bool) -> Kill | None:
        what = f"{'Init container' if is_init else 'Container'} {container.name}"
        if present.image and container.image and present.image != container.image:
            end = "" if is_init else ", will be restarted"
            return Kill(container, present.id, f"{what} definition changed{end}")
        kind = self._parts.probes.failure(pod, container.name)
        if kind is None:
            return None
        probe = container.startupProbe if kind == "Startup" else container.livenessProbe
        grace_s = probe.terminationGracePeriodSeconds if probe is not None else None
        end = ", will be restarted" if not is_init and restarts_on_failure(pod.spec) else ""
        return Kill(container, present.id, f"{what} failed {kind.lower()} probe{end}", grace_s)

    # -- before the sandbox ------------------------------------------------------------------------------------------

    async def prepare(self, record: PodRecord) -> None:
        pod, parts = record.pod, self._parts
        self._parts.steps.note(pod, "check permissions", ", ".join(checks.wants(pod)))
        try:
            await asyncio.to_thread(parts.groups.ensure, pod)
        except OSError as error:
            text = f"unable to ensure pod container exists: {error}"
            raise RuntimeFailure("FailedCreatePodContainer", text) from None
        self._parts.steps.note(pod, "make groups")
        if record.is_static:
            self._parts.steps.note(pod, "show mirror pod", await parts.own_pods.show(pod))
        try:
            await asyncio.to_thread(self._make_places, pod)
        except OSError as error:
            text = f"error making pod data directories: {error}"
            raise RuntimeFailure("FailedToMakePodDataDirectories", text) from None
        self._parts.steps.note(pod, "make data directory")
        parts.objects.follow(pod)
        try:
            await self._unless_ending(record, parts.volumes.mount(pod))
        except StillWaiting as failure:
            raise AlreadyTold(failure.reason, failure.message) from None
        except LimitExceeded as failure:
            parts.events.pod(record.kubelet, pod, WARNING, failure.reason, failure.message)
            record.verdict = Verdict(reason=failure.reason, message=f"Pod was rejected: {failure.message}")
            raise AlreadyTold(failure.reason, failure.message) from None
        self._parts.steps.note(pod, "mount volumes", " ".join(volume.name for volume in pod.spec.volumes))
        if pod.spec.imagePullSecrets:
            secrets = await self._unless_ending(record, parts.images.look_for_secrets(record))
            self._parts.steps.note(pod, "read image pull secrets", " ".join(secrets))
        await self._unless_ending(record, self._prepare_claims(pod))

    async def _prepare_claims(self, pod: Pod) -> None:
        await self._parts.plugins.prepare(pod)
        if pod.spec.resourceClaims:
            self._parts.steps.note(pod, "prepare claims", " ".join(claim.name for claim in pod.spec.resourceClaims))

    def _make_places(self, pod: Pod) -> None:
        directory = self._parts.environment.pod_directory(pod)
        for name in ("", "volumes", "plugins"):
            (directory / name).mkdir(parents=True, exist_ok=True, mode=0o750)
        self._parts.environment.log_directory(pod).mkdir(parents=True, exist_ok=True, mode=0o755)

    async def run_sandbox(self, record: PodRecord) -> None:
        pod, parts = record.pod, self._parts
        report = parts.runtime.pod_report(pod)
        if report.sandboxes and record.said is not None:
            text = "Pod sandbox changed, it will be killed and re-created."
            parts.events.pod(record.kubelet, pod, NORMAL, "SandboxChanged", text)
        config = await parts.environment.sandbox(pod, report.sandboxes)
        await parts.runtime.run_sandbox(pod, config)
        self._parts.steps.note(pod, "run sandbox", str(report.sandboxes))

    # -- containers --------------------------------------------------------------------------------------------------

    async def start(self, record: PodRecord, container: AnyContainer, attempt: int) -> None:
        pod, kubelet, parts = record.pod, record.kubelet, self._parts
        image = await self._unless_ending(record, parts.images.ensure(record, container))
        self._parts.steps.note(pod, "pull", f"{container.name} {image.id}")
        before = parts.runtime.pod_report(pod)
        try:
            config = await parts.environment.container(
                pod,
                container,
                attempt,
                ContainerInputs(
                    image=image,
                    mounts=partial(parts.volumes.mounts, pod, container),
                    devices=parts.volumes.devices(pod, container),
                    device_options=await parts.plugins.given(pod, container),
                    extra_groups=parts.volumes.extra_groups(pod),
                    file_key=partial(parts.volumes.file_key, pod),
                    pod_ips=before.ips,
                    target=_target(container, before),
                ),
            )
            self._parts.steps.note(pod, "configure", container.name)
            await asyncio.to_thread(_make_log_folder, config.log_path)
            id = await parts.runtime.start_container(pod, as_container(container), attempt, config)
        except RuntimeFailure as failure:
            self._tell_failure(record, container, failure)
            raise
        if isinstance(container, Container):
            parts.resizer.started(record, container)
        self._parts.steps.note(pod, "create", f"{container.name} {id}")
        parts.events.created(kubelet, pod, container)
        self._parts.steps.note(pod, "start", f"{container.name} {attempt}")
        parts.events.started(kubelet, pod, container)
        await self._forget_older(pod, container.name, before)
        await self._after_start(record, container)

    def _tell_failure(self, record: PodRecord, container: AnyContainer, failure: RuntimeFailure) -> None:
        """Record the failed step and its event. A container that could not be started had still been created."""
        pod, kubelet, parts = record.pod, record.kubelet, self._parts
        if failure.reason == RUN_ERROR:
            parts.steps.note(pod, "create", container.name)
            parts.events.created(kubelet, pod, container)
        step = {CONFIG_ERROR: "configure", RUN_ERROR: "start"}.get(failure.reason, "create")
        parts.steps.note(pod, step, f"{container.name}: {failure.reason}")
        parts.events.failed(kubelet, pod, container, failure.message)

    async def _forget_older(self, pod: Pod, name: str, before: PodReport) -> None:
        """Keep only the current and the previous instance of a container."""
        old = before.previous(name)
        if old is not None and before.container(name) is not None:
            await self._parts.runtime.remove_container(pod, old.id)

    async def _after_start(self, record: PodRecord, container: AnyContainer) -> None:
        hook = container.lifecycle.postStart if container.lifecycle is not None else None
        if hook is None:
            return
        pod, parts = record.pod, self._parts
        try:
            await parts.hooks.run(pod, container, hook)
        except HookFailed as failure:
            text = "PostStartHook failed"
            parts.events.container(record.kubelet, pod, container, WARNING, "FailedPostStartHook", text)
            parts.events.killing(record.kubelet, pod, container, "FailedPostStartHook")
            await self.stop(record, container.name, grace_period_s(pod.spec))
            raise RuntimeFailure(POST_START_FAILED, str(failure)) from None
        self._parts.steps.note(pod, "post-start hook", container.name)

    async def stop(self, record: PodRecord, name: str, grace_s: float) -> None:
        await self._parts.stopper.stop(record, name, grace_s)

    async def sync_running(self, record: PodRecord, report: PodReport) -> float | None:
        self._parts.volumes.update_pod(record.pod)
        again_s = await self._parts.resizer.sync(record, report)
        return again_s

    # -- termination -------------------------------------------------------------------------------------------------

    async def give_back(self, pod: Pod) -> None:
        await self._parts.plugins.release(pod.metadata.uid)

    async def release(self, pod: Pod) -> None:
        uid, parts = pod.metadata.uid, self._parts
        parts.stopper.forget(uid)
        parts.probes.forget(uid)
        parts.objects.forget(uid)
        await parts.plugins.release(uid)
        await parts.volumes.unmount(pod)
        await asyncio.to_thread(parts.groups.remove, uid)
        self._parts.steps.note(pod, "release")

    async def clean_up(self, pod: Pod) -> None:
        await self.release(pod)
        self._parts.messages.forget(pod.metadata.uid)
        await asyncio.to_thread(self._remove_folders, pod)
        self._parts.steps.note(pod, "clean up")

    def _remove_folders(self, pod: Pod) -> None:
        shutil.rmtree(self._parts.environment.log_directory(pod), ignore_errors=True)
        remove_folder(self._parts.environment.pod_directory(pod))

    # -- internals ---------------------------------------------------------------------------------------------------

    async def _unless_ending(self, record: PodRecord, work: Coroutine[Any, Any, T]) -> T:
        """Await work that may take long, and abandon it when the pod has to terminate."""
        ending = record.ending = record.ending or asyncio.Event()
        try:
            return await unless(ending.wait(), work)
        except GivenUp:
            raise AlreadyTold("Killing", "the pod is being deleted") from None


def _make_log_folder(path: os.PathLike[str]) -> None:
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)


def _target(container: AnyContainer, report: PodReport) -> str:
    """Return the ID of the container whose namespaces an ephemeral container targets."""
    if not isinstance(container, EphemeralContainer) or not container.targetContainerName:
        return ""
    target = report.container(container.targetContainerName)
    if target is None or target.state != contract.RUNNING:
        name = container.targetContainerName
        raise RuntimeFailure("CreateContainerConfigError", f'unable to find target container "{name}"')
    return target.id
