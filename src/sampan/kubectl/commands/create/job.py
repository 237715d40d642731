"""`kubectl create job`: a Job that runs an image once, or the job of a CronJob."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command_line.flags import string_flag
from sampan.kubectl.commands.create.generator import (
    CreationOptions,
    NameOptions,
    container,
    creation_flags,
    generator_command,
    metadata,
)
from sampan.kubectl.errors import KubectlError
from sampan.kubectl.objects.targets import ResourceBuilder, ResourceSelection


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateJobOptions(NameOptions):
    image: str = string_flag("--image", help="Image that the job runs.")
    source: str = string_flag("--from", metavar="cronjob/NAME", help="CronJob whose job is run.")
    creation: CreationOptions = creation_flags()


def job(name: str, namespace: str, options: CreateJobOptions) -> dict[str, Any]:
    pod_spec = {"containers": [container(name, options.image, options.command)], "restartPolicy": "Never"}
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


def _generate(factory: Factory, name: str, namespace: str, options: CreateJobOptions) -> dict[str, Any]:
    if bool(options.image) == bool(options.source):
        raise KubectlError("either --image or --from must be specified")
    if options.command and options.source:
        raise KubectlError("cannot specify --from and command")
    if options.image:
        return job(name, namespace, options)
    infos = list(ResourceBuilder(factory, ResourceSelection(words=[options.source])).infos())
    if len(infos) != 1:
        raise KubectlError("from must be an existing cronjob")
    if (infos[0].kind.group, infos[0].kind.kind) != ("batch", "CronJob"):
        raise KubectlError(f"unknown object type *{infos[0].kind.version}.{infos[0].kind.kind}")
    return job_of_cron_job(name, namespace, infos[0].value)


command = generator_command(
    "job",
    CreateJobOptions,
    _generate,
    help="Create a job from an image or from a cron job.",
    failure="failed to create job:",
)
