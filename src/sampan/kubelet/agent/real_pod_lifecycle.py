"""The life of a pod on a real node: the steps around its containers, in order (`pkg/kubelet/kuberuntime`)."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from sampan.api.go_compat import gotext
from sampan.api.semantics.pods import AnyContainer, as_container, grace_period_s, sidecars_of
from sampan.api.types.core_v1 import Container, EphemeralContainer, Pod, PodStatus
from sampan.host.linux.directory_trees import remove_tree
from sampan.kubelet.agent.admission_checks import NodeAdmission, host_privileges
from sampan.kubelet.agent.container_killer import ContainerKiller, HookFailed, LifecycleHookRunner
from sampan.kubelet.agent.garbage_collection import remove_directory
from sampan.kubelet.agent.image_manager import ImageManager
from sampan.kubelet.agent.node_plugins import NodePlugins
from sampan.kubelet.agent.pod_resizer import PodResizer
from sampan.kubelet.agent.static_pods import MirrorPods
from sampan.kubelet.agent.termination_messages import TerminationMessages
from sampan.kubelet.cancellation import WorkCancelled, run_until
from sampan.kubelet.cgroups import PodCgroups
from sampan.kubelet.container_config.builder import ContainerConfigBuilder, ContainerInputs
from sampan.kubelet.container_starter import RUN_ERROR
from sampan.kubelet.container_statuses import CONTAINER_CREATING, POD_INITIALIZING
from sampan.kubelet.objects import PodObjects
from sampan.kubelet.pod_actions import restarts_on_failure
from sampan.kubelet.pod_events import PodEvents, PodTrace
from sampan.kubelet.pod_lifecycle import ContainerKill, ReportedFailure
from sampan.kubelet.pod_status import PodFailure
from sampan.kubelet.probes import ProbeManager
from sampan.kubelet.records import PodRecord
from sampan.kubelet.volumes import LimitExceeded, StillWaiting, VolumeManager
from sampan.machinery.events import NORMAL, WARNING
from sampan.runtimes import contract
from sampan.runtimes.config import ContainerConfig
from sampan.runtimes.contract import ContainerReport, ImageInfo, PodReport, Runtime, RuntimeFailure

T = TypeVar("T")

POST_START_FAILED = "PostStartHookError"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLifecycleComponents:
    """The parts of the kubelet that carry out the steps of a pod's life."""

    runtime: Runtime
    container_configs: ContainerConfigBuilder
    images: ImageManager
    volumes: VolumeManager
    cgroups: PodCgroups
    objects: PodObjects
    probes: ProbeManager
    hooks: LifecycleHookRunner
    messages: TerminationMessages
    events: PodEvents
    resizer: PodResizer
    plugins: NodePlugins
    admission: NodeAdmission
    mirrors: MirrorPods
    killer: ContainerKiller
    trace: PodTrace


class RealPodLifecycle:
    """Implements PodLifecycle for a real node. Each step is recorded in the flight recorder."""

    def __init__(self, collaborators: PodLifecycleComponents) -> None:
        self._parts = collaborators

    def has_slow_start(self) -> bool:
        return True

    def has_leftovers(self, pod: Pod) -> bool:
        return True

    def admission_failure(self, pod: Pod) -> PodFailure | None:
        with self._parts.trace.step(pod, "see and admit", ", ".join(host_privileges(pod))) as step:
            failure = self._parts.admission.admission_failure(pod)
            if failure is not None:
                step.outcome = f"rejected: {failure.reason}"
        return failure

    def permission_failure(self, pod: Pod) -> PodFailure | None:
        failure = self._parts.admission.permission_failure(pod)
        if failure is not None:
            self._parts.trace.note(pod, "check permissions", f"rejected: {failure.reason}")
        return failure

    async def allocate_devices(self, record: PodRecord) -> PodFailure | None:
        report = self._parts.runtime.pod_report(record.pod)
        return await self._parts.plugins.admit(record.pod, is_running=bool(report.containers))

    def extend_status(self, pod: Pod, status: PodStatus) -> PodStatus:
        self._add_pull_progress(status)
        return self._parts.volumes.with_mount_statuses(pod, self._parts.plugins.extend_status(pod, status))

    def _add_pull_progress(self, status: PodStatus) -> None:
        """Say in the waiting state of containers what has arrived of images that are being pulled."""
        for container in (*(status.initContainerStatuses or ()), *(status.containerStatuses or ())):
            waiting = container.state.waiting
            if waiting is None or waiting.reason not in (CONTAINER_CREATING, POD_INITIALIZING):
                continue
            if (progress := self._parts.runtime.pull_progress(container.image)) is not None:
                done, size = (amount / 1_000_000 for amount in progress)
                waiting.message = f"pulling image {gotext.quote(container.image)}: {done:.1f} of {size:.1f} MB"

    # -- state -------------------------------------------------------------------------------------------------------

    def report(self, record: PodRecord) -> PodReport:
        pod, parts = record.pod, self._parts
        return parts.probes.apply_results(pod, parts.messages.extend_report(pod, parts.runtime.pod_report(pod)))

    def containers_to_kill(self, record: PodRecord, report: PodReport) -> Sequence[ContainerKill]:
        pod = record.pod
        if pod.metadata.deletionTimestamp is not None:
            return ()
        sidecars = sidecars_of(pod.spec)
        kills = []
        for container in (*sidecars, *(pod.spec.containers or ())):
            present = report.container(container.name)
            if present is None or present.state != contract.RUNNING:
                continue
            if container.name in (record.progress.resize_restarts or ()):
                text = f"Container {container.name} resize requires restart"
                kills.append(ContainerKill(container, present.id, text))
            elif (kill := self._decide_kill(pod, container, present, is_init=container in sidecars)) is not None:
                kills.append(kill)
        return kills

    def _decide_kill(
        self, pod: Pod, container: Container, present: ContainerReport, *, is_init: bool
    ) -> ContainerKill | None:
        container_text = f"{'Init container' if is_init else 'Container'} {container.name}"
        if present.image and container.image and present.image != container.image:
            end = "" if is_init else ", will be restarted"
            return ContainerKill(container, present.id, f"{container_text} definition changed{end}")
        kind = self._parts.probes.failure(pod, container.name)
        if kind is None:
            return None
        probe = container.startupProbe if kind == "Startup" else container.livenessProbe
        grace_s = probe.terminationGracePeriodSeconds if probe is not None else None
        end = ", will be restarted" if not is_init and restarts_on_failure(pod.spec) else ""
        return ContainerKill(container, present.id, f"{container_text} failed {kind.lower()} probe{end}", grace_s)

    # -- before the sandbox ------------------------------------------------------------------------------------------

    async def prepare(self, record: PodRecord) -> None:
        pod, parts = record.pod, self._parts
        with parts.trace.step(pod, "create cgroups"):
            try:
                await asyncio.to_thread(parts.cgroups.ensure, pod)
            except OSError as error:
                text = f"unable to ensure pod container exists: {error}"
                raise RuntimeFailure("FailedCreatePodContainer", text) from None
        if record.spec.is_static:
            with parts.trace.step(pod, "create mirror pod") as step:
                step.outcome = await parts.mirrors.ensure_mirror(pod)
        with parts.trace.step(pod, "create data directories"):
            try:
                await asyncio.to_thread(self._make_directories, pod)
            except OSError as error:
                text = f"error making pod data directories: {error}"
                raise RuntimeFailure("FailedToMakePodDataDirectories", text) from None
        parts.objects.follow(pod)
        with parts.trace.step(pod, "mount volumes", " ".join(volume.name for volume in pod.spec.volumes)):
            await self._mount_volumes(record)
        await self._run_unless_terminating(record, self._prepare_claims(pod))

    async def _mount_volumes(self, record: PodRecord) -> None:
        pod, parts = record.pod, self._parts
        try:
            await self._run_unless_terminating(record, parts.volumes.mount(pod))
        except StillWaiting as failure:
            raise ReportedFailure(failure.reason, failure.message) from None
        except LimitExceeded as failure:
            parts.events.record_pod_event(record.node, pod, WARNING, failure.reason, failure.message)
            record.spec.failure = PodFailure(reason=failure.reason, message=f"Pod was rejected: {failure.message}")
            raise ReportedFailure(failure.reason, failure.message) from None

    async def _prepare_claims(self, pod: Pod) -> None:
        if not pod.spec.resourceClaims:
            await self._parts.plugins.prepare(pod)
            return
        with self._parts.trace.step(pod, "prepare claims", " ".join(claim.name for claim in pod.spec.resourceClaims)):
            await self._parts.plugins.prepare(pod)

    def _make_directories(self, pod: Pod) -> None:
        directory = self._parts.container_configs.pod_directory(pod)
        for name in ("", "volumes", "plugins"):
            (directory / name).mkdir(parents=True, exist_ok=True, mode=0o750)
        self._parts.container_configs.log_directory(pod).mkdir(parents=True, exist_ok=True, mode=0o755)

    async def run_sandbox(self, record: PodRecord) -> None:
        pod, parts = record.pod, self._parts
        report = parts.runtime.pod_report(pod)
        if report.sandboxes and record.published.pending is not None:
            text = "Pod sandbox changed, it will be killed and re-created."
            parts.events.record_pod_event(record.node, pod, NORMAL, "SandboxChanged", text)
        with parts.trace.step(pod, "run sandbox", f"restart {report.sandboxes}" if report.sandboxes else ""):
            config = await parts.container_configs.sandbox(pod, report.sandboxes)
            await parts.runtime.run_sandbox(pod, config)

    # -- containers --------------------------------------------------------------------------------------------------

    async def start_container(self, record: PodRecord, container: AnyContainer, attempt: int) -> None:
        pod, node, parts = record.pod, record.node, self._parts
        with parts.trace.step(pod, "pull image", container.name) as step:
            record.progress.is_pulling = True
            try:
                image = await self._run_unless_terminating(record, parts.images.ensure(record, container))
            finally:
                record.progress.is_pulling = False
            step.outcome = f"{container.name} {image.id}"
        before = parts.runtime.pod_report(pod)
        try:
            with parts.trace.step(pod, "configure container", container.name):
                config = await self._container_config(pod, container, attempt, image, before)
            with parts.trace.step(pod, "start container", container.name) as step:
                await asyncio.to_thread(_make_log_directory, config.log_path)
                id = await parts.runtime.start_container(pod, as_container(container), attempt, config)
                step.outcome = f"{container.name} {id}"
        except RuntimeFailure as failure:
            if failure.reason == RUN_ERROR:  # A container that could not be started had still been created.
                parts.events.record_created(node, pod, container)
                await self._forget_older(pod, container.name, before)
            parts.events.record_failed(node, pod, container, failure.message)
            raise
        if isinstance(container, Container):
            parts.resizer.record_start(record, container)
        parts.events.record_created(node, pod, container)
        parts.events.record_started(node, pod, container)
        await self._forget_older(pod, container.name, before)
        await self._run_post_start_hook(record, container)

    async def _container_config(
        self, pod: Pod, container: AnyContainer, attempt: int, image: ImageInfo, before: PodReport
    ) -> ContainerConfig:
        parts = self._parts
        inputs = ContainerInputs(
            image=image,
            mounts=partial(parts.volumes.mounts, pod, container),
            devices=parts.volumes.devices(pod, container),
            device_options=await parts.plugins.run_options(pod, container),
            extra_groups=parts.volumes.extra_groups(pod),
            file_key=partial(parts.volumes.file_key, pod),
            pod_ips=before.ips,
            target=_target(container, before),
        )
        return await parts.container_configs.container(pod, container, attempt, inputs)

    async def _forget_older(self, pod: Pod, name: str, before: PodReport) -> None:
        """Keep only the current and the previous instance of a container."""
        old = before.previous(name)
        if old is not None and before.container(name) is not None:
            await self._parts.runtime.remove_container(pod, old.id)

    async def _run_post_start_hook(self, record: PodRecord, container: AnyContainer) -> None:
        hook = container.lifecycle.postStart if container.lifecycle is not None else None
        if hook is None:
            return
        pod, parts = record.pod, self._parts
        try:
            with parts.trace.step(pod, "post-start hook", container.name):
                await self._run_unless_terminating(record, parts.hooks.run(pod, container, hook))
        except ReportedFailure:  # The container keeps running until the pod stops it.
            return
        except HookFailed as failure:
            text = "PostStartHook failed"
            parts.events.record_container_event(record.node, pod, container, WARNING, "FailedPostStartHook", text)
            parts.events.record_killing(record.node, pod, container, "FailedPostStartHook")
            await self.stop_container(record, container.name, grace_period_s(pod.spec))
            raise RuntimeFailure(POST_START_FAILED, str(failure)) from None

    async def stop_container(self, record: PodRecord, name: str, grace_s: float) -> None:
        await self._parts.killer.stop(record, name, grace_s)

    async def sync_running(self, record: PodRecord, report: PodReport) -> float | None:
        self._parts.volumes.update_pod(record.pod)
        again_s = await self._parts.resizer.sync(record, report)
        return again_s

    # -- termination -------------------------------------------------------------------------------------------------

    async def release_devices(self, record: PodRecord) -> None:
        await self._parts.plugins.release(record.uid)

    async def release(self, record: PodRecord) -> None:
        pod, uid, parts = record.pod, record.uid, self._parts
        parts.killer.forget(uid)
        parts.probes.forget(uid)
        parts.objects.forget(uid)
        await parts.plugins.release(uid)
        await parts.volumes.unmount(pod)
        await asyncio.to_thread(parts.cgroups.remove, uid)
        self._parts.trace.note(pod, "release")

    async def remove(self, record: PodRecord) -> None:
        pod = record.pod
        await self._parts.runtime.remove_pod(record.uid)
        await self.release(record)
        self._parts.messages.forget(record.uid)
        await asyncio.to_thread(self._remove_directories, pod)
        self._parts.trace.note(pod, "clean up")

    def _remove_directories(self, pod: Pod) -> None:
        with contextlib.suppress(OSError):
            remove_tree(self._parts.container_configs.log_directory(pod))
        remove_directory(self._parts.container_configs.pod_directory(pod))

    # -- internals ---------------------------------------------------------------------------------------------------

    async def _run_unless_terminating(self, record: PodRecord, work: Coroutine[Any, Any, T]) -> T:
        """Await work that may take long, and abandon it when the pod has to terminate."""
        interruption = record.progress.interruption = record.progress.interruption or asyncio.Event()
        try:
            return await run_until(interruption.wait(), work)
        except WorkCancelled:
            raise ReportedFailure("Killing", "the pod is being deleted") from None


def _make_log_directory(path: os.PathLike[str]) -> None:
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)


def _target(container: AnyContainer, report: PodReport) -> str:
    """Return the ID of the container that an ephemeral container targets, and whose namespaces it joins."""
    if not isinstance(container, EphemeralContainer) or not container.targetContainerName:
        return ""
    target = report.container(container.targetContainerName)
    if target is None or target.state != contract.RUNNING:
        name = container.targetContainerName
        raise RuntimeFailure("CreateContainerConfigError", f'unable to find target container "{name}"')
    return target.id
