"""A whole cluster with hollow nodes on a virtual clock, for the conformance tests of jobs and cron jobs."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sampan.api.codec import json as codec
from sampan.api.types.batch_v1 import CronJob, Job
from sampan.api.types.core_v1 import Event, Pod
from sampan.host.clock import VirtualClock
from sampan.machinery.client import Selection
from sampan.testing import Cluster

INDEX = "batch.kubernetes.io/job-completion-index"
IN_DEFAULT = Selection(namespace="default")


def template(*, restart: str = "Never", run: str = "1s", code: str = "0", **behavior: str) -> dict[str, Any]:
    """Return a template of pods that run for a time and exit with a code; `behavior` has further annotations for the
    hollow runtime."""
    pod_annotations = {
        "run": run,
        "exit-code": code,
        **{key.replace("_", "-"): value for key, value in behavior.items()},
    }
    annotations = {f"hollow.sampan.dev/{key}": value for key, value in pod_annotations.items()}
    spec = {"restartPolicy": restart, "containers": [{"name": "c", "image": "i"}]}
    return {"metadata": {"annotations": annotations}, "spec": spec}


def job(name: str = "foo", *, pods: dict[str, Any] | None = None, **spec: Any) -> Job:
    value = {"metadata": {"name": name, "namespace": "default"}, "spec": {"template": pods or template(), **spec}}
    return codec.from_value(value, Job)


def cron_job(name: str, *, run: str = "300s", **spec: Any) -> CronJob:
    """Return a CronJob that starts a job every minute, whose pods run for this time."""
    pods = template(run=run)
    cron_spec = {"schedule": "*/1 * * * *", "jobTemplate": {"spec": {"template": pods}}, **spec}
    return codec.from_value({"metadata": {"name": name, "namespace": "default"}, "spec": cron_spec}, CronJob)


@dataclass(slots=True)
class Batch:
    cluster: Cluster
    clock: VirtualClock

    @property
    def jobs(self) -> Any:
        return self.cluster.client.for_kind(Job)

    @property
    def cron_jobs(self) -> Any:
        return self.cluster.client.for_kind(CronJob)

    @property
    def pods(self) -> Any:
        return self.cluster.client.for_kind(Pod)

    async def create(self, obj: Any, pass_s: float = 0.5) -> Any:
        created = await self.cluster.client.for_kind(type(obj)).create(obj)
        await self.clock.advance(pass_s)
        return created

    async def get(self, name: str = "foo") -> Job:
        job: Job = await self.jobs.get(name, "default")
        return job

    async def conditions(self, name: str = "foo") -> list[tuple[str, str]]:
        return [(condition.type, condition.reason) for condition in (await self.get(name)).status.conditions]

    async def list_pods(self) -> Sequence[Pod]:
        pods: Sequence[Pod] = (await self.pods.list(IN_DEFAULT)).items
        return sorted(pods, key=lambda pod: pod.metadata.name)

    async def list_jobs(self) -> Sequence[Job]:
        jobs: Sequence[Job] = (await self.jobs.list(IN_DEFAULT)).items
        return jobs

    async def reasons(self) -> set[str]:
        return {event.reason for event in (await self.cluster.client.for_kind(Event).list(IN_DEFAULT)).items}


@asynccontextmanager
async def batch_cluster(stages: Path | None = None) -> AsyncIterator[Batch]:
    clock = VirtualClock()
    async with Cluster(nodes=2, clock=clock, hollow_stages=stages) as cluster:
        yield Batch(cluster, clock)


def write_stages(path: Path, codes: dict[str, tuple[str, int]]) -> Path:
    """Write a stage file: by label selector, how long pods run and with which code they exit."""
    file = path / "stages.yaml"
    lines = ["stages:"]
    for selector, (run, code) in codes.items():
        lines += [f"- match: {{labels: '{selector}'}}", f"  run: {run}", f"  exit-code: {code}"]
    file.write_text("\n".join(lines))
    return file


def bare() -> dict[str, Any]:
    """Return a template that leaves the behavior of pods to the stage file."""
    return {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
