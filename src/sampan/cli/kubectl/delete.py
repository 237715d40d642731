"""`kubectl delete`."""

from __future__ import annotations

import time
from typing import Any

import click

from sampan.cli.failures import CliError
from sampan.cli.kubectl.kinds import Kind, Kinds
from sampan.cli.kubectl.manifests import read_manifests
from sampan.cli.kubectl.placing import namespace_for
from sampan.cli.kubectl.session import ServerError, Session, open_session
from sampan.cli.kubectl.targets import targets

_POLICIES = {"background": "Background", "foreground": "Foreground", "orphan": "Orphan"}
_LOOK_EVERY_S = 0.1


@click.command("delete")
@click.argument("words", nargs=-1)
@click.option("-f", "--filename", "files", multiple=True, metavar="F", help="The objects in files.")
@click.option("-l", "--selector", default="", help="Labels to select by.")
@click.option("--all", "everything", is_flag=True, help="All objects of the kind in the namespace.")
@click.option("-n", "--namespace", default="", metavar="NS", help="The namespace to work in.")
@click.option("--grace-period", default=-1, help="Seconds; -1 for the object's own.")
@click.option("--force", is_flag=True, help="Do not wait for the node; with a grace period of 0.")
@click.option("--now", is_flag=True, help="A grace period of 1.")
@click.option(
    "--cascade",
    default="background",
    type=click.Choice(list(_POLICIES)),
    show_default=True,
    help="What becomes of what the objects own.",
)
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until the objects are gone.")
@click.option("--ignore-not-found", is_flag=True, help="What is not there is no error.")
@click.option("--timeout", "timeout_s", default=0.0, metavar="S", help="How long to wait; 0: as long as it takes.")
@click.pass_obj
def command(flags: dict[str, Any], /, words: tuple[str, ...], files: tuple[str, ...], **given: Any) -> None:
    """Delete objects: `delete pod a`, `delete pods -l app=web`, `delete -f file.yaml`."""
    session = open_session(flags | ({"namespace": given["namespace"]} if given["namespace"] else {}))
    kinds = Kinds(session)
    work = _from_files(session, kinds, files, given) if files else _from_words(session, kinds, words, given)
    failed = False
    gone = []
    for kind, namespace, name in work:
        try:
            session.send("DELETE", kind.object(namespace, name), body=_options(given))
        except ServerError as error:
            if not (given["ignore_not_found"] and error.error.reason == "NotFound"):
                click.echo(error.text, err=True)
                failed = True
            continue
        verb = "force deleted" if given["force"] else "deleted"
        where = f" from {namespace} namespace" if namespace else ""
        click.echo(f'{kind.qualified} "{name}" {verb}{where}')
        gone.append((kind, namespace, name))
    if given["wait"]:
        _wait(session, gone, given["timeout_s"])
    if failed:
        raise SystemExit(1)


Work = list[tuple[Kind, str, str]]


def _from_files(session: Session, kinds: Kinds, files: tuple[str, ...], given: dict[str, Any]) -> Work:
    work = []
    for obj in read_manifests(files):
        kind = kinds.of(obj["apiVersion"], obj["kind"])
        work.append((kind, namespace_for(kind, obj, session, given["namespace"]), obj["metadata"]["name"]))
    return work


def _from_words(session: Session, kinds: Kinds, words: tuple[str, ...], given: dict[str, Any]) -> Work:
    work: Work = []
    for target in targets(kinds, words, action="delete"):
        namespace = session.namespace if target.kind.is_namespaced else ""
        names = target.names
        if not names:
            if not (given["selector"] or given["everything"]):
                raise CliError("resource(s) were provided, but no name was specified")
            query = {"labelSelector": given["selector"]} if given["selector"] else {}
            items = session.get(target.kind.collection(namespace), query)["items"] or []
            names = [item["metadata"]["name"] for item in items]
            if not names:
                click.echo("No resources found")
        work += [(target.kind, namespace, name) for name in names]
    return work


def _options(given: dict[str, Any]) -> dict[str, Any]:
    grace = 0 if given["force"] and given["grace_period"] < 0 else 1 if given["now"] else given["grace_period"]
    options: dict[str, Any] = {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "propagationPolicy": _POLICIES[given["cascade"]],
    }
    return options | ({"gracePeriodSeconds": grace} if grace >= 0 else {})


def _wait(session: Session, work: Work, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s if timeout_s > 0 else None
    for kind, namespace, name in work:
        while _is_there(session, kind, namespace, name):
            if deadline is not None and time.monotonic() > deadline:
                raise CliError(f"timed out waiting for the condition on {kind.plural}/{name}")
            time.sleep(_LOOK_EVERY_S)


def _is_there(session: Session, kind: Kind, namespace: str, name: str) -> bool:
    try:
        session.get(kind.object(namespace, name))
    except ServerError as error:
        if error.error.reason == "NotFound":
            return False
        raise
    return True
