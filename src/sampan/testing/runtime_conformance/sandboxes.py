"""Sandboxes are created, stopped, removed and recreated."""

from __future__ import annotations

import ipaddress

from sampan.runtimes import contract
from sampan.testing.runtime_conformance.bench import FOREVER, open_bench
from sampan.testing.runtime_conformance.subject import Checks, Feature, Subject

CHECKS = Checks()


@CHECKS.add()
async def sandbox_can_be_run_stopped_and_removed(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        pod = bench.pod()
        uid = pod.metadata.uid
        assert bench.runtime.pod_report(pod) == contract.EMPTY_REPORT
        await bench.runtime.run_sandbox(pod, bench.sandbox_config(pod))
        report = bench.runtime.pod_report(pod)
        assert (report.is_sandbox_ready, report.sandboxes, list(report.containers)) == (True, 1, [])
        assert uid in bench.runtime.list_pod_uids()
        await bench.runtime.stop_sandbox(pod)
        report = bench.runtime.pod_report(pod)
        assert (report.is_sandbox_ready, list(report.ips)) == (False, [])
        await bench.runtime.stop_sandbox(pod)
        await bench.runtime.remove_pod(uid)
        assert bench.runtime.pod_report(pod) == contract.EMPTY_REPORT
        assert uid not in bench.runtime.list_pod_uids()
        await bench.runtime.remove_pod(uid)


@CHECKS.add(Feature.ADDRESS)
async def sandboxes_have_addresses(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        pods = [await bench.sandbox(), await bench.sandbox()]
        addresses = [bench.runtime.pod_report(pod).ips for pod in pods]
        assert all(ipaddress.ip_address(ip) for ips in addresses for ip in ips)
        assert addresses[0], "a pod has no address"
        if Feature.NETWORK not in subject.lacks:
            assert addresses[0] != addresses[1], "two pods have the same address"


@CHECKS.add(Feature.PROGRAMS)
async def recreated_sandbox_stops_old_containers(subject: Subject) -> None:
    """Containers of the old sandbox are stopped, and reported as previous ones."""
    async with open_bench(subject) as bench:
        pod = await bench.sandbox()
        old = await bench.start(pod, FOREVER)
        await bench.runtime.run_sandbox(pod, bench.sandbox_config(pod, attempt=1))
        report = bench.runtime.pod_report(pod)
        assert (report.is_sandbox_ready, report.sandboxes, report.container("c")) == (True, 2, None)
        before = report.previous("c")
        assert before is not None
        assert (before.id, before.state, before.exit_code) == (old, contract.EXITED, 137)
        new = await bench.start(pod, FOREVER, attempt=1)
        assert (bench.report(pod).id, bench.report(pod).attempt, bench.report(pod).state) == (new, 1, contract.RUNNING)
        previous = bench.runtime.pod_report(pod).previous("c")
        assert previous is not None
        assert previous.id == old


@CHECKS.add()
async def completed_containers_stay_completed_in_a_new_sandbox(subject: Subject) -> None:
    """In a new sandbox, a container that exited successfully counts as done; failed ones and all init containers run
    again."""
    async with open_bench(subject) as bench:
        pod = await bench.sandbox("good", "bad", "init")
        await bench.start(pod, "exit 0", "good", ends=0)
        await bench.start(pod, "exit 3", "bad", ends=3)
        await bench.start(pod, "exit 0", "init", ends=0)
        for name in ("good", "bad", "init"):
            await bench.wait_for_exit(pod, name)
        pod.spec.initContainers = [(pod.spec.containers or []).pop()]
        await bench.runtime.run_sandbox(pod, bench.sandbox_config(pod, attempt=1))
        report = bench.runtime.pod_report(pod)
        assert [container.name for container in report.containers] == ["good"]
        assert sorted(container.name for container in report.before) == ["bad", "init"]


@CHECKS.add()
async def removing_a_pod_leaves_other_pods_running(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        removed, other = await bench.sandbox(), await bench.sandbox()
        await bench.start(removed, FOREVER)
        id = await bench.start(other, FOREVER)
        await bench.runtime.remove_pod(removed.metadata.uid)
        assert bench.runtime.pod_report(removed) == contract.EMPTY_REPORT
        assert (bench.report(other).id, bench.report(other).state) == (id, contract.RUNNING)
