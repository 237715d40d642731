"""`kubectl rollout status`: show the status of a rollout until it is complete."""

from __future__ import annotations

import time
from typing import Any

import click

from sampan.cli.kubectl.command import KubectlCommand
from sampan.cli.kubectl.errors import ErrorAggregate, KubectlError
from sampan.cli.kubectl.factory import Factory
from sampan.cli.kubectl.flag_parser import DURATION
from sampan.cli.kubectl.rollout import report_no_resources, rollout_builder, rollout_options
from sampan.cli.kubectl.rollout.status_texts import StatusOf, status_function
from sampan.cli.kubectl.session import ServerError, Session
from sampan.cli.kubectl.targets import ResourceInfo


@click.command("status", cls=KubectlCommand)
@rollout_options()
@click.option("-w", "--watch", is_flag=True, default=True, help="Wait until the rollout is complete. True by default.")
@click.option("--revision", type=click.INT, default=0, metavar="N", help="Revision that must be current; 0 for any.")
@click.option(
    "--timeout", "timeout_s", type=DURATION, default=0.0, metavar="TIME", help="How long to wait; 0 without limit."
)
@click.pass_obj
def command(factory: Factory, /, words: tuple[str, ...], **options: Any) -> None:
    """Show the status of a rollout until it is complete."""
    builder = rollout_builder(factory, words, options)
    if options["revision"] < 0:
        raise KubectlError(f"revision must be a positive integer: {options['revision']}")
    errors, count = ErrorAggregate(), 0
    for info in builder.infos(errors):
        count += 1
        with errors.collect():
            status_of = status_function(info.kind.group, info.kind.kind)
            session = factory.session.another()
            try:
                _follow(session, info, status_of, options)
            finally:
                session.close()
    errors.raise_any()
    if not count:
        report_no_resources(factory, errors)


def _follow(session: Session, info: ResourceInfo, status_of: StatusOf, options: dict[str, Any]) -> None:
    """Print the status after each change of the object, until the rollout is complete."""
    timeout_s = options["timeout_s"]
    deadline = time.monotonic() + timeout_s if timeout_s else None
    query = {"fieldSelector": f"metadata.name={info.name}"}
    while True:
        response = session.get(info.collection, query)
        items = response.get("items") or ()
        if not items:
            raise KubectlError("object has been deleted")
        if _is_done(items[0], status_of, options):
            return
        version = response["metadata"].get("resourceVersion", "")
        if _watch(session, info, {**query, "resourceVersion": version}, status_of, options, deadline):
            return


def _watch(
    session: Session,
    info: ResourceInfo,
    query: dict[str, str],
    status_of: StatusOf,
    options: dict[str, Any],
    deadline: float | None,
) -> bool:
    """Follow the events of the object. Return whether the rollout is complete; otherwise the watch has ended."""
    query |= {"watch": "true"}
    if deadline is not None:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise KubectlError("timed out waiting for the condition")
        query |= {"timeoutSeconds": str(int(remaining) + 1)}
    try:
        for event in session.lines(info.collection, query):
            if event["type"] == "DELETED":
                raise KubectlError("object has been deleted")
            if event["type"] in ("ADDED", "MODIFIED") and _is_done(event["object"], status_of, options):
                return True
            if deadline is not None and time.monotonic() > deadline:
                raise KubectlError("timed out waiting for the condition")
    except ServerError as error:
        if error.error.code != 410:
            raise
    finally:
        session.close()
    return False


def _is_done(workload: dict[str, Any], status_of: StatusOf, options: dict[str, Any]) -> bool:
    text, is_done = status_of(workload, options["revision"])
    click.echo(text)
    return is_done or not options["watch"]
