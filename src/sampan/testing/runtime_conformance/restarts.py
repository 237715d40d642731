"""Containers survive a restart of the kubelet: a new runtime adopts the containers of the previous one."""

from __future__ import annotations

import asyncio

from sampan.api.types.core_v1 import Pod
from sampan.runtimes import contract
from sampan.testing.runtime_conformance.bench import FOREVER, RuntimeBench, open_bench, wait_until
from sampan.testing.runtime_conformance.subject import Checks, Feature, Subject

CHECKS = Checks()


@CHECKS.add(Feature.PROGRAMS, Feature.ADOPTION)
async def containers_survive_a_restart_of_the_kubelet(subject: Subject) -> None:
    """Running containers continue, those that exited in the meantime have their exit codes, and no log line is lost."""
    async with open_bench(subject, keeps=True) as old:
        pod = await old.sandbox("runs", "ended", "ends", "later")
        container = await old.start(pod, "i=0; while :; do echo $i; i=$((i+1)); sleep 0.1; done", "runs")
        await old.start(pod, "exit 3", "ended")
        await old.start(pod, "sleep 1.2; echo last words; exit 4", "ends")
        await old.wait_for_exit(pod, "ended")
        before = old.runtime.pod_report(pod)
    await asyncio.sleep(1.5)
    async with open_bench(subject) as new:
        new.uids = old.uids
        new.runtime.adopt(pod)
        after = new.runtime.pod_report(pod)
        assert (after.is_sandbox_ready, after.ips) == (True, before.ips)
        assert (new.report(pod, "runs").id, new.report(pod, "runs").state) == (container, contract.RUNNING)
        assert new.report(pod, "ended").exit_code == 3
        assert (await new.wait_for_exit(pod, "ends")).exit_code == 4
        await wait_until(lambda: new.log(pod, "ends") == ["last words"], "the last line of the log is lost")
        await _check_adopted_pod(new, pod)


async def _check_adopted_pod(bench: RuntimeBench, pod: Pod) -> None:
    numbers = len(bench.log(pod, "runs"))
    await wait_until(lambda: len(bench.log(pod, "runs")) > numbers, "the log gets no new lines")
    lines = [int(line) for line in bench.log(pod, "runs")]
    assert lines == list(range(len(lines))), "lines of the log were lost or duplicated"
    if Feature.EXEC not in bench.subject.lacks:
        assert (await bench.exec(pod, "exit 6", "runs"))[0] == 6
    await bench.start(pod, FOREVER, "later")
    assert bench.report(pod, "later").state == contract.RUNNING
    await bench.runtime.stop_container(pod, "runs", 0)
    assert (await bench.wait_for_exit(pod, "runs")).exit_code == 137
    await wait_until(lambda: bool(bench.changed_pods), "the change of the pod was not reported")
