"""`kubectl exec`: run a command in a container."""

from __future__ import annotations

from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command_line.command import ARGS_BEFORE_DASH, KubectlCommand
from sampan.kubectl.command_line.flag_parser import DURATION, STRING_SLICE
from sampan.kubectl.errors import KubectlError, UsageError
from sampan.kubectl.objects.manifests import FilenameFlags
from sampan.kubectl.objects.pod_selection import (
    Pod,
    activity_order,
    attachable_pod,
    check_container,
    default_container,
    pods_of_object,
)


@click.command("exec", cls=KubectlCommand)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--pod-running-timeout",
    type=DURATION,
    default=60.0,
    metavar="T",
    help="Time to wait for a running pod. Default: 1m.",
)
@click.option(
    "-f", "--filename", "files", multiple=True, type=STRING_SLICE, metavar="FILE", help="File with the object to use."
)
@click.option(
    "-c", "--container", default="", metavar="C", help="Container name. Default: the first container of the pod."
)
@click.option("-i", "--stdin", is_flag=True, help="Pass standard input to the container.")
@click.option("-t", "--tty", is_flag=True, help="Standard input is a terminal: allocate one for the command.")
@click.option("-q", "--quiet", is_flag=True, help="Print only output of the command.")
@click.pass_context
def command(ctx: click.Context, /, words: tuple[str, ...], **options: Any) -> None:
    """Run a command in a container."""
    from sampan.kubectl.client.container_terminal import run

    factory: Factory = ctx.obj
    dash = ctx.meta[ARGS_BEFORE_DASH]
    target = words[0] if words and dash != 0 else ""
    if dash < 0 and (len(words) > 1 or (words and options["files"])):
        raise UsageError("exec [POD] [COMMAND] is not supported anymore. Use exec [POD] -- [COMMAND] instead")
    command_words = words[dash:] if dash >= 0 else ()
    if not target and not options["files"]:
        raise KubectlError("pod, type/name or --filename must be specified")
    if not command_words:
        raise KubectlError("you must specify at least one command for the container")
    pod = _pod(factory, target, options)
    phase = (pod.get("status") or {}).get("phase")
    if phase in ("Succeeded", "Failed"):
        raise KubectlError(f"cannot exec into a container in a completed pod; current phase is {phase}")
    requested = options["container"]
    container = check_container(pod, requested) if requested else default_container(pod, is_quiet=options["quiet"])
    metadata = pod["metadata"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/exec"
    query = [*(("command", word) for word in command_words), ("container", container), ("stdout", "true")]
    run(
        factory.session,
        path,
        query,
        has_stdin=options["stdin"],
        has_tty=options["tty"],
        is_quiet=options["quiet"],
    )


def _pod(factory: Factory, target: str, options: dict[str, Any]) -> Pod:
    timeout_s = options["pod_running_timeout"]
    if timeout_s <= 0:
        raise UsageError("--pod-running-timeout must be higher than zero")
    if target:
        return attachable_pod(factory, target, timeout_s=timeout_s)
    infos = list(factory.resources(files=FilenameFlags(options["files"], "", False), fetches_latest=True).infos())
    if len(infos) != 1:
        raise KubectlError("cannot exec into multiple objects at a time")
    return pods_of_object(factory.session, infos[0].value, "attach to", activity_order, timeout_s=timeout_s)[0][0]
