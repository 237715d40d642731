"""`kubectl attach`: connect to the main process of a container."""

from __future__ import annotations

from typing import Any

import click

from sampan.cli.kubectl.chosen_pods import chosen_container, chosen_pod, pod_and_rest
from sampan.cli.kubectl.command import KubectlCommand
from sampan.cli.kubectl.container_terminal import run
from sampan.cli.kubectl.factory import Factory


@click.command("attach", cls=KubectlCommand)
@click.argument("words", nargs=-1)
@click.option(
    "-c", "--container", default="", metavar="C", help="Container name. Default: the first container of the pod."
)
@click.option("-i", "--stdin", is_flag=True, help="Pass standard input to the container.")
@click.option("-t", "--tty", is_flag=True, help="Standard input is a terminal: forward it as one.")
@click.option("-q", "--quiet", is_flag=True, help="Print only output of the container.")
@click.pass_obj
def command(factory: Factory, /, words: tuple[str, ...], **options: Any) -> None:
    """Attach to the main process of a running container.

    \b
    Examples:
      sampan kubectl attach POD
      sampan kubectl attach POD -c CONTAINER -i -t
    """
    name, _ = pod_and_rest(words)
    session = factory.session
    pod = chosen_pod(session, name)
    container = chosen_container(pod, options["container"], is_quiet=options["quiet"])
    if options["stdin"] and not options["quiet"]:
        click.echo("If you don't see a command prompt, try pressing enter.", err=True)
    query = [("container", container), ("stdout", "true")]
    query += [("stdin", "true")] if options["stdin"] else []
    query += [("tty", "true")] if options["tty"] else [("stderr", "true")]
    meta = pod["metadata"]
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/attach"
    run(session, path, query, has_stdin=options["stdin"], has_tty=options["tty"])
