"""`kubectl exec`: run a command in a container."""

from __future__ import annotations

from typing import Any

import click

from sampan.cli.failures import CliError
from sampan.cli.kubectl.chosen_pods import chosen_container, chosen_pod, pod_and_rest
from sampan.cli.kubectl.command import KubectlCommand
from sampan.cli.kubectl.container_terminal import run
from sampan.cli.kubectl.factory import Factory


@click.command("exec", cls=KubectlCommand, is_interspersed=False)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "-c", "--container", default="", metavar="C", help="Container name. Default: the first container of the pod."
)
@click.option("-i", "--stdin", is_flag=True, help="Pass standard input to the container.")
@click.option("-t", "--tty", is_flag=True, help="Standard input is a terminal: allocate one for the command.")
@click.option("-q", "--quiet", is_flag=True, help="Print only output of the command.")
@click.pass_obj
def command(factory: Factory, /, words: tuple[str, ...], **options: Any) -> None:
    """Run a command in a container.

    \b
    Examples:
      sampan kubectl exec POD -- ls -l
      sampan kubectl exec -it deploy/web -- sh
    """
    name, command_words = pod_and_rest(words)
    if not command_words:
        raise CliError("you must specify at least one command for the container")
    session = factory.session
    pod = chosen_pod(session, name)
    if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        message = f"cannot exec into a container in a completed pod; current phase is {pod['status']['phase']}"
        raise CliError(message)
    container = chosen_container(pod, options["container"], is_quiet=options["quiet"])
    meta = pod["metadata"]
    query = [*(("command", word) for word in command_words), ("container", container), ("stdout", "true")]
    query += [("stdin", "true")] if options["stdin"] else []
    query += [("tty", "true")] if options["tty"] else [("stderr", "true")]
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/exec"
    run(session, path, query, has_stdin=options["stdin"], has_tty=options["tty"])
