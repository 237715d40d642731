"""`kubectl create job`: a Job that runs an image once, or the job of a CronJob."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.commands.create.generator import container, generator_command, metadata
from sampan.kubectl.errors import KubectlError


def job(name: str, namespace: str = "", *, image: str, command: Sequence[str] = ()) -> dict[str, Any]:
    pod_spec = {"containers": [container(name, image, command)], "restartPolicy": "Never"}
    return {
        "kind": "Job",
        "apiVersion": "batch/v1",
        "metadata": metadata(name, namespace),
        "spec": {"template": {"metadata": {}, "spec": pod_spec}},
        "status": {},
    }


def job_of_cron_job(name: str, namespace: str, cron_job: dict[str, Any]) -> dict[str, Any]:
    """Return a Job with the template of a CronJob, which becomes its controller."""
    template = cron_job["spec"]["jobTemplate"]
    template_metadata = template.get("metadata") or {}
    owner = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "name": cron_job["metadata"]["name"],
        "uid": cron_job["metadata"].get("uid", ""),
        "controller": True,
    }
    annotations = {"cronjob.kubernetes.io/instantiate": "manual", **(template_metadata.get("annotations") or {})}
    labels = template_metadata.get("labels") or {}
    return {
        "kind": "Job",
        "apiVersion": "batch/v1",
        "metadata": metadata(name, namespace, labels=labels, annotations=annotations, ownerReferences=[owner]),
        "spec": template.get("spec") or {},
        "status": {},
    }


def _generate(name: str, namespace: str, factory: Factory, image: str, source: str, command: Sequence[str]) -> Any:
    if bool(image) == bool(source):
        raise KubectlError("either --image or --from must be specified")
    if command and source:
        raise KubectlError("cannot specify --from and command")
    if image:
        return job(name, namespace, image=image, command=command)
    infos = list(factory.resources(words=[source]).infos())
    if len(infos) != 1:
        raise KubectlError("from must be an existing cronjob")
    if (infos[0].kind.group, infos[0].kind.kind) != ("batch", "CronJob"):
        raise KubectlError(f"unknown object type *{infos[0].kind.version}.{infos[0].kind.kind}")
    return job_of_cron_job(name, namespace, infos[0].value)


command = generator_command(
    "job",
    click.option("--image", default="", help="Image that the job runs."),
    click.option("--from", "source", default="", metavar="cronjob/NAME", help="CronJob whose job is run."),
    help="Create a job from an image or from a cron job.",
    failure="failed to create job:",
    takes_command=True,
    needs_factory=True,
)(_generate)
