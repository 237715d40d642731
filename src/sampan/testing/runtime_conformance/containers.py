"""Containers start, exit, are stopped and restarted."""

from __future__ import annotations

import asyncio
import time

from sampan.runtimes import contract
from sampan.runtimes.config import ContainerResources
from sampan.testing.runtime_conformance.bench import FOREVER, expect_failure, open_bench, wait_until
from sampan.testing.runtime_conformance.subject import Checks, Feature, Subject

CHECKS = Checks()
_LIMITS = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.max"
_QUOTA = "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null || cat /sys/fs/cgroup/cpu.max"


@CHECKS.add()
async def running_container_is_reported(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        pod = await bench.sandbox()
        before = time.time()
        id = await bench.start(pod, FOREVER)
        report = bench.report(pod)
        assert id == report.id
        assert id.startswith(f"{bench.runtime.name}://")
        assert (report.state, report.attempt) == (contract.RUNNING, 0)
        assert (report.is_started, report.is_ready) == (True, True)
        assert before - 2 <= report.started_at <= time.time() + 2
        assert (report.finished_at, report.exit_code, report.reason) == (0, 0, "")
        assert report.image == subject.image


@CHECKS.add()
async def exit_codes_are_reported(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        pod = await bench.sandbox("good", "bad")
        await bench.start(pod, "exit 0", "good", ends=0)
        await bench.start(pod, "exit 3", "bad", ends=3)
        good, bad = await bench.wait_for_exit(pod, "good"), await bench.wait_for_exit(pod, "bad")
        assert (good.exit_code, good.reason) == (0, contract.COMPLETED)
        assert (bad.exit_code, bad.reason) == (3, contract.ERROR)
        assert 0 < bad.started_at <= bad.finished_at
        assert (bad.is_started, bad.is_ready) == (False, False)


@CHECKS.add(Feature.PROGRAMS)
async def container_exit_notifies_the_kubelet(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        pod = await bench.sandbox()
        await bench.start(pod, "trap 'exit 1' TERM; echo ready; while :; do sleep 0.05; done")
        await wait_until(lambda: bool(bench.log(pod)), "the container writes no output")
        bench.changed_pods.clear()
        await bench.runtime.stop_container(pod, "c", 600)
        await wait_until(lambda: pod.metadata.uid in bench.changed_pods, "the change of the pod was not reported")
        assert (await bench.wait_for_exit(pod)).exit_code == 1


@CHECKS.add(Feature.PROGRAMS)
async def stopped_container_has_its_grace_period(subject: Subject) -> None:
    """A container that handles the signal exits on its own, one that ignores it is killed after the grace period."""
    async with open_bench(subject) as bench:
        pod = await bench.sandbox("hears", "deaf", "other")
        await bench.start(pod, "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done", "hears")
        await bench.start(pod, "trap '' TERM; echo ready; while :; do sleep 0.05; done", "deaf")
        await bench.start(
            pod, "trap 'exit 8' USR1; echo ready; while :; do sleep 0.05; done", "other", stop_signal="SIGUSR1"
        )
        for name in ("hears", "deaf", "other"):
            await wait_until(lambda name=name: bool(bench.log(pod, name)), f"container {name} writes no output")  # type: ignore[misc]
        await bench.runtime.stop_container(pod, "hears", 600)
        assert (await bench.wait_for_exit(pod, "hears")).exit_code == 7
        await bench.runtime.stop_container(pod, "deaf", 600)
        assert bench.report(pod, "deaf").state == contract.RUNNING, "the stop of a container must wait for its exit"
        began = time.monotonic()
        await bench.runtime.stop_container(pod, "deaf", 1)
        killed = await bench.wait_for_exit(pod, "deaf")
        assert (killed.exit_code, killed.reason) == (137, contract.ERROR)
        assert time.monotonic() - began >= 0.9, "the grace period was not respected"
        await bench.runtime.stop_container(pod, "deaf", 1)
        if Feature.FILES not in subject.lacks:  # the stop signal comes from the image, or since 2025 from CRI
            await bench.runtime.stop_container(pod, "other", 1)
            assert (await bench.wait_for_exit(pod, "other")).exit_code in (8, 137)


@CHECKS.add(Feature.PROGRAMS)
async def grace_period_can_be_shortened(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        pod = await bench.sandbox()
        await bench.start(pod, "trap '' TERM; echo ready; while :; do sleep 0.05; done")
        await wait_until(lambda: bool(bench.log(pod)), "the container writes no output")
        await bench.runtime.stop_container(pod, "c", 600)
        await asyncio.sleep(0.2)
        assert bench.report(pod).state == contract.RUNNING
        await bench.runtime.stop_container(pod, "c", 0)
        assert (await bench.wait_for_exit(pod)).exit_code == 137


@CHECKS.add()
async def exited_container_can_be_started_again(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        pod = await bench.sandbox()
        first = await bench.start(pod, "echo first; exit 1", ends=1)
        await bench.wait_for_exit(pod)
        second = await bench.start(pod, "echo second; exec sleep 1000000", attempt=1)
        report = bench.runtime.pod_report(pod)
        before = report.previous("c")
        assert (bench.report(pod).id, bench.report(pod).attempt) == (second, 1)
        assert before is not None
        assert (before.id, before.attempt, before.exit_code) == (first, 0, 1)
        assert len(report.containers) == len(report.before) == 1
        if Feature.PROGRAMS not in subject.lacks:
            await wait_until(lambda: bench.log(pod) == ["second"], "the log is not that of the current container")
            assert bench.log(pod, previous=True) == ["first"]
            old = bench.runtime.log_file(pod, "c", previous=True)
            await bench.runtime.remove_container(pod, first)
            assert bench.runtime.pod_report(pod).previous("c") is None
            assert old is not None
            assert bench.report(pod).state == contract.RUNNING


@CHECKS.add(Feature.PROGRAMS)
async def failed_container_start_raises_and_can_be_retried(subject: Subject) -> None:
    """A container whose command does not exist has exited, as the restart policy applies to it. One that cannot be
    created leaves nothing."""
    async with open_bench(subject) as bench:
        pod = await bench.sandbox()
        assert (await expect_failure(bench.start(pod, "true", image="sampan.local/no-such:1"))).reason
        assert bench.runtime.pod_report(pod).container("c") is None
        failure = await expect_failure(bench.start(pod, ["/no/such/program"]))
        assert failure.reason == "RunContainerError"
        failed = bench.report(pod)
        assert (failed.state, failed.attempt, failed.reason) == (contract.EXITED, 0, contract.START_ERROR)
        assert failed.exit_code in (contract.START_ERROR_CODE, 127)  # Docker has an exit code of its own
        assert "/no/such/program" in failed.message
        assert time.time() - 60 <= failed.finished_at <= time.time() + 2
        await bench.start(pod, FOREVER, attempt=1)
        assert (bench.report(pod).state, bench.report(pod).attempt) == (contract.RUNNING, 1)
        before = bench.runtime.pod_report(pod).previous("c")
        assert before is not None
        assert before.id == failed.id


@CHECKS.add(Feature.LIMITS)
async def container_over_its_memory_limit_is_killed(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        pod = await bench.sandbox()
        await bench.start(pod, "exec tail /dev/zero", resources=ContainerResources(memory_bytes=24 << 20))
        report = await bench.wait_for_exit(pod)
        assert (report.exit_code, report.reason) == (137, contract.OOM_KILLED)


@CHECKS.add(Feature.LIMITS, Feature.EXEC)
async def resources_of_a_running_container_can_be_updated(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        pod = await bench.sandbox()
        first = ContainerResources(memory_bytes=64 << 20, cpu_quota=20_000, cpu_shares=102)
        await bench.start(pod, FOREVER, resources=first)
        assert await bench.output(pod, _LIMITS) == str(64 << 20)
        assert (await bench.output(pod, _QUOTA)).split()[0] == "20000"
        more = ContainerResources(memory_bytes=96 << 20, cpu_quota=50_000, cpu_shares=512)
        await bench.runtime.update_resources(pod, "c", more)
        assert await bench.output(pod, _LIMITS) == str(96 << 20)
        assert (await bench.output(pod, _QUOTA)).split()[0] == "50000"
