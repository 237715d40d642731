"""Containers start, exit, are stopped and restarted."""

from __future__ import annotations

import asyncio
import time

from sampan.runtimes import contract
from sampan.runtimes.config import Resources
from sampan.testing.runtime_conformance.bench import FOREVER, bench, refused, until
from sampan.testing.runtime_conformance.subject import Checks, Feature, Subject

CHECKS = Checks()
_LIMITS = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.max"
_QUOTA = "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null || cat /sys/fs/cgroup/cpu.max"


@CHECKS.add()
async def a_container_runs(subject: Subject) -> None:
    async with bench(subject) as at:
        pod = await at.sandbox()
        before = time.time()
        id = await at.start(pod, FOREVER)
        report = at.report(pod)
        assert id == report.id
        assert id.startswith(f"{at.runtime.name}://")
        assert (report.state, report.attempt) == (contract.RUNNING, 0)
        assert (report.is_started, report.is_ready) == (True, True)
        assert before - 2 <= report.started_at <= time.time() + 2
        assert (report.finished_at, report.exit_code, report.reason) == (0, 0, "")
        assert report.image == subject.image


@CHECKS.add()
async def a_container_ends_with_a_code(subject: Subject) -> None:
    async with bench(subject) as at:
        pod = await at.sandbox("good", "bad")
        await at.start(pod, "exit 0", "good", ends=0)
        await at.start(pod, "exit 3", "bad", ends=3)
        good, bad = await at.ended(pod, "good"), await at.ended(pod, "bad")
        assert (good.exit_code, good.reason) == (0, contract.COMPLETED)
        assert (bad.exit_code, bad.reason) == (3, contract.ERROR)
        assert 0 < bad.started_at <= bad.finished_at
        assert (bad.is_started, bad.is_ready) == (False, False)


@CHECKS.add(Feature.PROGRAMS)
async def an_exit_is_reported(subject: Subject) -> None:
    async with bench(subject) as at:
        pod = await at.sandbox()
        await at.start(pod, "trap 'exit 1' TERM; echo ready; while :; do sleep 0.05; done")
        await until(lambda: bool(at.log(pod)), "the container writes no output")
        at.changed_pods.clear()
        await at.runtime.stop_container(pod, "c", 600)
        await until(lambda: pod.metadata.uid in at.changed_pods, "the change of the pod was not reported")
        assert (await at.ended(pod)).exit_code == 1


@CHECKS.add(Feature.PROGRAMS)
async def a_container_is_stopped_with_grace(subject: Subject) -> None:
    """A container that handles the signal exits on its own, one that ignores it is killed after the grace period."""
    async with bench(subject) as at:
        pod = await at.sandbox("hears", "deaf", "other")
        await at.start(pod, "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done", "hears")
        await at.start(pod, "trap '' TERM; echo ready; while :; do sleep 0.05; done", "deaf")
        await at.start(
            pod, "trap 'exit 8' USR1; echo ready; while :; do sleep 0.05; done", "other", stop_signal="SIGUSR1"
        )
        for name in ("hears", "deaf", "other"):
            await until(lambda name=name: bool(at.log(pod, name)), f"container {name} writes no output")  # type: ignore[misc]
        await at.runtime.stop_container(pod, "hears", 600)
        assert (await at.ended(pod, "hears")).exit_code == 7
        await at.runtime.stop_container(pod, "deaf", 600)
        assert at.report(pod, "deaf").state == contract.RUNNING, "the stop of a container must wait for its exit"
        began = time.monotonic()
        await at.runtime.stop_container(pod, "deaf", 1)
        killed = await at.ended(pod, "deaf")
        assert (killed.exit_code, killed.reason) == (137, contract.ERROR)
        assert time.monotonic() - began >= 0.9, "the grace period was not respected"
        await at.runtime.stop_container(pod, "deaf", 1)
        if Feature.FILES not in subject.lacks:  # the stop signal comes from the image, or since 2025 from CRI
            await at.runtime.stop_container(pod, "other", 1)
            assert (await at.ended(pod, "other")).exit_code in (8, 137)


@CHECKS.add(Feature.PROGRAMS)
async def a_grace_can_be_made_shorter(subject: Subject) -> None:
    async with bench(subject) as at:
        pod = await at.sandbox()
        await at.start(pod, "trap '' TERM; echo ready; while :; do sleep 0.05; done")
        await until(lambda: bool(at.log(pod)), "the container writes no output")
        await at.runtime.stop_container(pod, "c", 600)
        await asyncio.sleep(0.2)
        assert at.report(pod).state == contract.RUNNING
        await at.runtime.stop_container(pod, "c", 0)
        assert (await at.ended(pod)).exit_code == 137


@CHECKS.add()
async def a_container_begins_again(subject: Subject) -> None:
    async with bench(subject) as at:
        pod = await at.sandbox()
        first = await at.start(pod, "echo first; exit 1", ends=1)
        await at.ended(pod)
        second = await at.start(pod, "echo second; exec sleep 1000000", attempt=1)
        report = at.runtime.pod_report(pod)
        before = report.previous("c")
        assert (at.report(pod).id, at.report(pod).attempt) == (second, 1)
        assert before is not None
        assert (before.id, before.attempt, before.exit_code) == (first, 0, 1)
        assert len(report.containers) == len(report.before) == 1
        if Feature.PROGRAMS not in subject.lacks:
            await until(lambda: at.log(pod) == ["second"], "the log is not that of the current container")
            assert at.log(pod, previous=True) == ["first"]
            old = at.runtime.log_file(pod, "c", previous=True)
            await at.runtime.remove_container(pod, first)
            assert at.runtime.pod_report(pod).previous("c") is None
            assert old is not None
            assert at.report(pod).state == contract.RUNNING


@CHECKS.add(Feature.PROGRAMS)
async def a_container_that_cannot_begin_is_refused(subject: Subject) -> None:
    """A container that fails to start does not block the next one."""
    async with bench(subject) as at:
        pod = await at.sandbox()
        failure = await refused(at.start(pod, ["/no/such/program"]))
        assert failure.reason in ("CreateContainerError", "RunContainerError")
        report = at.runtime.pod_report(pod).container("c")
        assert report is None or report.state == contract.EXITED
        assert (await refused(at.start(pod, "true", image="sampan.local/no-such:1"))).reason
        await at.start(pod, FOREVER)
        assert at.report(pod).state == contract.RUNNING


@CHECKS.add(Feature.LIMITS)
async def who_takes_too_much_memory_is_killed(subject: Subject) -> None:
    async with bench(subject) as at:
        pod = await at.sandbox()
        await at.start(pod, "exec tail /dev/zero", resources=Resources(memory_bytes=24 << 20))
        report = await at.ended(pod)
        assert (report.exit_code, report.reason) == (137, contract.OOM_KILLED)


@CHECKS.add(Feature.LIMITS, Feature.EXEC)
async def limits_change_while_it_runs(subject: Subject) -> None:
    async with bench(subject) as at:
        pod = await at.sandbox()
        first = Resources(memory_bytes=64 << 20, cpu_quota=20_000, cpu_shares=102)
        await at.start(pod, FOREVER, resources=first)
        assert await at.output(pod, _LIMITS) == str(64 << 20)
        assert (await at.output(pod, _QUOTA)).split()[0] == "20000"
        more = Resources(memory_bytes=96 << 20, cpu_quota=50_000, cpu_shares=512)
        await at.runtime.update_resources(pod, "c", more)
        assert await at.output(pod, _LIMITS) == str(96 << 20)
        assert (await at.output(pod, _QUOTA)).split()[0] == "50000"
