"""`kubectl delete`: delete objects by name, selector or file."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import click

from sampan.cli.failures import CliError
from sampan.cli.kubectl.kinds import ResourceType, ResourceTypes
from sampan.cli.kubectl.manifest_targets import kind_for, namespace_for
from sampan.cli.kubectl.manifests import read_manifests
from sampan.cli.kubectl.session import Refusals, ServerError, Session, open_session
from sampan.cli.kubectl.targets import listed, targets

_POLICIES = {"background": "Background", "foreground": "Foreground", "orphan": "Orphan"}
_LOOK_EVERY_S = 0.1
_NOTHING = """\
You must provide one or more resources by argument or filename.
Example resource specifications include:
   '-f rsrc.yaml'
   '--filename=rsrc.json'
   '<resource> <name>'
   '<resource>'"""
_FORCED = (
    "Warning: Immediate deletion does not wait for confirmation that the running resource has been terminated. The "
    "resource may continue to run on the cluster indefinitely."
)


@click.command("delete")
@click.argument("words", nargs=-1)
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="F",
    help="File, directory or - (standard input) with the objects to delete.",
)
@click.option("-l", "--selector", default="", help="Label selector of the objects to delete.")
@click.option("--all", "everything", is_flag=True, help="Delete all objects of the given kinds in the namespace.")
@click.option("-n", "--namespace", default="", metavar="NS", help="Namespace of the objects.")
@click.option(
    "--grace-period", default=-1, help="Seconds that a pod gets to terminate; -1 uses the grace period of the object."
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
    type=click.Choice(list(_POLICIES)),
    show_default=True,
    help="What happens to dependents of the deleted objects: background, orphan or foreground deletion.",
)
@click.option(
    "--wait/--no-wait", default=True, show_default=True, help="Wait until the objects are gone before returning."
)
@click.option("--ignore-not-found", is_flag=True, help="Treat an object that does not exist as success.")
@click.option(
    "--timeout",
    "timeout_s",
    default=0.0,
    metavar="S",
    help="How long to wait for the deletion, for example 30s; 0 waits without limit.",
)
@click.pass_obj
def command(flags: dict[str, Any], /, words: tuple[str, ...], files: tuple[str, ...], **options: Any) -> None:
    """Delete objects by name, label selector or file.

    \b
    Examples:
      sampan kubectl delete pod NAME
      sampan kubectl delete pods -l app=web
      sampan kubectl delete -f FILE
    """
    if not (words or files):
        raise CliError(_NOTHING)
    session = open_session(flags | ({"namespace": options["namespace"]} if options["namespace"] else {}))
    kinds = ResourceTypes(session)
    work = _from_files(session, kinds, files, options) if files else _from_words(session, kinds, words, options)
    if options["force"] and options["grace_period"] <= 0:
        click.echo(_FORCED, err=True)
    deleted, refusals = Work(), Refusals()
    for target in work:
        try:
            session.send("DELETE", target.path, body=_delete_options(options))
        except ServerError as error:
            if not (options["ignore_not_found"] and error.error.reason == "NotFound"):
                refusals.add(error.about(f'error when deleting "{target.source}"') if target.source else error)
            continue
        verb = "force deleted" if options["force"] else "deleted"
        where = f" from {target.namespace} namespace" if target.namespace else ""
        click.echo(f'{target.kind.qualified} "{target.name}" {verb}{where}')
        deleted.append(target)
    if options["wait"]:
        _wait(session, deleted, options["timeout_s"])
    refusals.end()


@dataclass(frozen=True, slots=True)
class DeletedObject:
    kind: ResourceType
    namespace: str
    name: str
    source: str = ""
    """The file that names the object; empty if the command line does."""

    @property
    def path(self) -> str:
        return self.kind.object(self.namespace, self.name)


Work = list[DeletedObject]


def _from_files(session: Session, kinds: ResourceTypes, files: tuple[str, ...], options: dict[str, Any]) -> Work:
    work: Work = []
    for manifest in read_manifests(files, action="delete"):
        kind = kind_for(kinds, manifest)
        namespace = namespace_for(kind, manifest, session, options["namespace"])
        work.append(DeletedObject(kind, namespace, manifest.name, manifest.source))
    return work


def _from_words(session: Session, kinds: ResourceTypes, words: tuple[str, ...], options: dict[str, Any]) -> Work:
    work: Work = []
    for target in targets(kinds, words):
        namespace = session.namespace if target.kind.is_namespaced else ""
        is_selected = options["selector"] or options["everything"]
        if target.names and is_selected:
            raise CliError("name cannot be provided when a selector is specified")
        if not (target.names or is_selected):
            raise CliError("resource(s) were provided, but no name was specified")
        names = target.names or _selected(session, target.kind, namespace, options["selector"])
        work += [DeletedObject(target.kind, namespace, name) for name in names]
    if not work:
        click.echo("No resources found")
    return work


def _selected(session: Session, kind: ResourceType, namespace: str, selector: str) -> list[str]:
    query = {"labelSelector": selector} if selector else {}
    return [item["metadata"]["name"] for item in listed(session, kind, namespace, query)["items"] or []]


def _delete_options(options: dict[str, Any]) -> dict[str, Any]:
    grace = 0 if options["force"] and options["grace_period"] < 0 else 1 if options["now"] else options["grace_period"]
    body: dict[str, Any] = {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "propagationPolicy": _POLICIES[options["cascade"]],
    }
    return body | ({"gracePeriodSeconds": grace} if grace >= 0 else {})


def _wait(session: Session, work: Work, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s if timeout_s > 0 else None
    for target in work:
        while _is_there(session, target):
            if deadline is not None and time.monotonic() > deadline:
                raise CliError(f"timed out waiting for the condition on {target.kind.plural}/{target.name}")
            time.sleep(_LOOK_EVERY_S)


def _is_there(session: Session, target: DeletedObject) -> bool:
    try:
        session.get(target.path)
    except ServerError as error:
        if error.error.reason == "NotFound":
            return False
        raise
    return True
