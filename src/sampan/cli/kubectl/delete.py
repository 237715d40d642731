"""`kubectl delete`: delete objects by name, selector or file."""

from __future__ import annotations

import time
from typing import Any

import click

from sampan.cli.failures import CliError
from sampan.cli.kubectl.command import KubectlCommand
from sampan.cli.kubectl.errors import ErrorAggregate
from sampan.cli.kubectl.factory import Factory
from sampan.cli.kubectl.flag_parser import DURATION
from sampan.cli.kubectl.options import filename_flags, filename_options
from sampan.cli.kubectl.session import ServerError, Session
from sampan.cli.kubectl.targets import MISSING_RESOURCE, ResourceInfo

_POLICIES = {"background": "Background", "foreground": "Foreground", "orphan": "Orphan"}
_LOOK_EVERY_S = 0.1
_FORCED = (
    "Warning: Immediate deletion does not wait for confirmation that the running resource has been terminated. The "
    "resource may continue to run on the cluster indefinitely."
)


@click.command("delete", cls=KubectlCommand)
@click.argument("words", nargs=-1)
@filename_options("to delete")
@click.option("-l", "--selector", default="", help="Label selector of the objects to delete.")
@click.option("--all", "everything", is_flag=True, help="Delete all objects of the given kinds in the namespace.")
@click.option(
    "--grace-period",
    type=click.INT,
    default=-1,
    help="Seconds that a pod gets to terminate; -1 uses the grace period of the object.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Remove the object from the API immediately, without waiting for the kubelet's confirmation.",
)
@click.option("--now", is_flag=True, help="Signal termination at once; the same as --grace-period=1.")
@click.option(
    "--cascade",
    default="background",
    is_flag=False,
    flag_value="background",
    metavar="POLICY",
    show_default=True,
    help="What happens to dependents of the deleted objects: background, orphan or foreground deletion.",
)
@click.option(
    "--wait", is_flag=True, default=True, help="Wait until the objects are gone before returning. True by default."
)
@click.option("--ignore-not-found", is_flag=True, help="Treat an object that does not exist as success.")
@click.option(
    "--timeout",
    "timeout_s",
    default=0.0,
    type=DURATION,
    metavar="TIME",
    help="How long to wait for the deletion, for example 30s; 0 waits without limit.",
)
@click.pass_obj
def command(factory: Factory, /, words: tuple[str, ...], **options: Any) -> None:
    """Delete objects by name, label selector or file.

    \b
    Examples:
      sampan kubectl delete pod NAME
      sampan kubectl delete pods -l app=web
      sampan kubectl delete -f FILE
    """
    files = filename_flags(options)
    if not (words or files):
        raise CliError(MISSING_RESOURCE)
    session, errors = factory.session, ErrorAggregate()
    if options["force"] and options["grace_period"] <= 0:
        click.echo(_FORCED, err=True)
    builder = factory.resources(
        words=words, files=files, selector=options["selector"], selects_all=options["everything"], fetches=False
    )
    deleted: list[ResourceInfo] = []
    for info in builder.infos(errors):
        try:
            session.send("DELETE", info.path, body=_delete_options(options))
        except ServerError as error:
            if not (options["ignore_not_found"] and error.is_not_found):
                errors.add(error.about(f'error when deleting "{info.source}"') if info.source else error)
            continue
        verb = "force deleted" if options["force"] else "deleted"
        where = f" from {info.namespace} namespace" if info.namespace else ""
        click.echo(f'{info.kind.qualified} "{info.name}" {verb}{where}')
        deleted.append(info)
    if not (deleted or errors or options["ignore_not_found"]):
        click.echo("No resources found")
    if options["wait"]:
        _wait(session, deleted, options["timeout_s"])
    errors.raise_any()


def _delete_options(options: dict[str, Any]) -> dict[str, Any]:
    grace = 0 if options["force"] and options["grace_period"] < 0 else 1 if options["now"] else options["grace_period"]
    body: dict[str, Any] = {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "propagationPolicy": _POLICIES[options["cascade"]],
    }
    return body | ({"gracePeriodSeconds": grace} if grace >= 0 else {})


def _wait(session: Session, infos: list[ResourceInfo], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s if timeout_s > 0 else None
    for target in infos:
        while _is_there(session, target):
            if deadline is not None and time.monotonic() > deadline:
                raise CliError(f"timed out waiting for the condition on {target.kind.plural}/{target.name}")
            time.sleep(_LOOK_EVERY_S)


def _is_there(session: Session, target: ResourceInfo) -> bool:
    try:
        session.get(target.path)
    except ServerError as error:
        if error.error.reason == "NotFound":
            return False
        raise
    return True
