"""Sandboxes are created, stopped, removed and recreated."""

from __future__ import annotations

import ipaddress

from sampan.runtimes import contract
from sampan.testing.runtime_conformance.bench import FOREVER, bench
from sampan.testing.runtime_conformance.subject import Checks, Feature, Subject

CHECKS = Checks()


@CHECKS.add()
async def a_sandbox_comes_and_goes(subject: Subject) -> None:
    async with bench(subject) as at:
        pod = at.pod()
        uid = pod.metadata.uid
        assert at.runtime.pod_report(pod) == contract.NOTHING
        await at.runtime.run_sandbox(pod, at.sandbox_config(pod))
        report = at.runtime.pod_report(pod)
        assert (report.is_sandbox_ready, report.sandboxes, list(report.containers)) == (True, 1, [])
        assert uid in at.runtime.known_pods()
        await at.runtime.stop_sandbox(pod)
        report = at.runtime.pod_report(pod)
        assert (report.is_sandbox_ready, list(report.ips)) == (False, [])
        await at.runtime.stop_sandbox(pod)
        await at.runtime.remove_pod(uid)
        assert at.runtime.pod_report(pod) == contract.NOTHING
        assert uid not in at.runtime.known_pods()
        await at.runtime.remove_pod(uid)


@CHECKS.add(Feature.ADDRESS)
async def sandboxes_have_addresses(subject: Subject) -> None:
    async with bench(subject) as at:
        pods = [await at.sandbox(), await at.sandbox()]
        addresses = [at.runtime.pod_report(pod).ips for pod in pods]
        assert all(ipaddress.ip_address(ip) for ips in addresses for ip in ips)
        assert addresses[0], "a pod has no address"
        if Feature.NETWORK not in subject.lacks:
            assert addresses[0] != addresses[1], "two pods have the same address"


@CHECKS.add(Feature.PROGRAMS)
async def a_sandbox_is_made_anew(subject: Subject) -> None:
    """Containers of the old sandbox are stopped, and reported as previous ones."""
    async with bench(subject) as at:
        pod = await at.sandbox()
        old = await at.start(pod, FOREVER)
        await at.runtime.run_sandbox(pod, at.sandbox_config(pod, attempt=1))
        report = at.runtime.pod_report(pod)
        assert (report.is_sandbox_ready, report.sandboxes, report.container("c")) == (True, 2, None)
        before = report.previous("c")
        assert before is not None
        assert (before.id, before.state, before.exit_code) == (old, contract.EXITED, 137)
        new = await at.start(pod, FOREVER, attempt=1)
        assert (at.report(pod).id, at.report(pod).attempt, at.report(pod).state) == (new, 1, contract.RUNNING)
        previous = at.runtime.pod_report(pod).previous("c")
        assert previous is not None
        assert previous.id == old


@CHECKS.add()
async def what_is_done_in_a_new_sandbox(subject: Subject) -> None:
    """In a new sandbox, a container that exited successfully counts as done; failed ones and all init containers run
    again."""
    async with bench(subject) as at:
        pod = await at.sandbox("good", "bad", "init")
        await at.start(pod, "exit 0", "good", ends=0)
        await at.start(pod, "exit 3", "bad", ends=3)
        await at.start(pod, "exit 0", "init", ends=0)
        for name in ("good", "bad", "init"):
            await at.ended(pod, name)
        pod.spec.initContainers = [(pod.spec.containers or []).pop()]
        await at.runtime.run_sandbox(pod, at.sandbox_config(pod, attempt=1))
        report = at.runtime.pod_report(pod)
        assert [container.name for container in report.containers] == ["good"]
        assert sorted(container.name for container in report.before) == ["bad", "init"]


@CHECKS.add()
async def pods_do_not_mind_each_other(subject: Subject) -> None:
    async with bench(subject) as at:
        removed, other = await at.sandbox(), await at.sandbox()
        await at.start(removed, FOREVER)
        id = await at.start(other, FOREVER)
        await at.runtime.remove_pod(removed.metadata.uid)
        assert at.runtime.pod_report(removed) == contract.NOTHING
        assert (at.report(other).id, at.report(other).state) == (id, contract.RUNNING)
