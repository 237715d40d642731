"""`sampan trace`: show what happened to an object, from the records of the flight recorder.

For a pod this is a timeline of the steps from the request until its services lead to it, with durations and the
critical path. For other objects it is the list of their records.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import click

from sampan.cli.kubectl import open_session
from sampan.cli.session_reader import SessionReader
from sampan.cli.trace.timeline_svg import timeline_svg
from sampan.cli.trace.timeline_text import duration, timeline_text
from sampan.diagnosis.cluster_reader import RECORDS_PATH
from sampan.diagnosis.pod_cause import read_owner_records
from sampan.diagnosis.pod_timeline import CONTROLLER_ACCOUNTS, PodTimeline, timeline, timeline_value
from sampan.kubectl.client.resource_type import ResourceType
from sampan.kubectl.client.resource_types import ResourceTypes
from sampan.kubectl.client.session import Session
from sampan.kubectl.command_line.global_options import connection_options
from sampan.kubectl.errors import ServerError
from sampan.kubectl.objects.targets import targets
from sampan.kubectl.printers.objects import as_json
from sampan.kubectl.printers.table import table_lines
from sampan.machinery.cli_errors import CliError

_POLL_S = 0.2
_PUBLICATION_S = 1.0
"""How long `--follow` waits, after the pod is ready, for the steps that publish the pod to its services. The pod may
have no service."""
_OUTPUTS = ("", "wide", "json", "svg")

Record = dict[str, Any]


@click.command("trace")
@click.argument("words", nargs=-1, required=True, metavar="[KIND/]NAME")
@click.option("-n", "--namespace", default="", metavar="NS", help="Namespace of the object.")
@click.option(
    "-o",
    "--output",
    default="",
    metavar="FORMAT",
    help="Output format: wide adds details, json prints all fields, svg draws the timeline of a pod.",
)
@click.option(
    "-f", "--follow", is_flag=True, help="Print steps as they happen until the pod is ready, then the timeline."
)
@connection_options
def command(words: tuple[str, ...], output: str, follow: bool, **options: Any) -> None:
    """Show what happened to an object.

    For a pod it shows the steps from the request until its services lead to it: which component did what, when, how
    long it took, and which steps determined how long the pod took to start. The API server remembers the last 20,000
    actions.

    \b
    Examples:
      sampan trace pod/web
      sampan trace pod/web --follow
      sampan trace pod/web -o svg > web.svg
      sampan trace deployment/web
    """
    if output not in _OUTPUTS:
        raise CliError(f"-o: there is no {output!r}; supported: wide, json, svg")
    session = open_session(options)
    words = ("pod", *words) if len(words) == 1 and "/" not in words[0] else words
    for target in targets(ResourceTypes(session), words):
        if not target.names:
            raise CliError(f"name the object, for example {target.kind.singular}/NAME")
        for name in target.names:
            trace = ObjectTrace(session, target.kind, name)
            if follow:
                trace.follow()
            click.echo(trace.text(output))


class ObjectTrace:
    """The records of one object and, for a pod, those of the objects that own it."""

    def __init__(self, session: Session, kind: ResourceType, name: str) -> None:
        self._session, self._kind, self._name = session, kind, name

    @property
    def is_pod(self) -> bool:
        return self._kind.plural == "pods" and not self._kind.group

    def text(self, output: str) -> str:
        value = self._session.get(self._kind.object(self._session.namespace, self._name))
        records = self._records(value["metadata"]["uid"])
        if not self.is_pod:
            if output == "svg":
                raise CliError("-o: svg draws the timeline of a pod; other objects have a list of records")
            return as_json(records) if output == "json" else "\n".join(_record_lines(records))
        owners = asyncio.run(read_owner_records(SessionReader(self._session), value))
        line = timeline(records, owners)
        if output == "json":
            return as_json({**timeline_value(line), "records": records})
        title = _title(value)
        return timeline_svg(title, line) if output == "svg" else timeline_text(title, line, is_wide=output == "wide")

    def follow(self) -> None:
        """Print the steps of a pod as they happen, until it is ready or has ended. A pod that does not exist yet is
        waited for."""
        if not self.is_pod:
            raise CliError("--follow: only the steps of a pod can be followed")
        value = self._wait_until_created()
        records: list[Record] = []
        first = 0.0
        deadline = 0.0
        while True:
            new = self._records(value["metadata"]["uid"], after=records[-1]["number"] if records else 0)
            records += new
            line = timeline(records)
            first = first or line.start
            for step in timeline(new).steps:
                text = f"{duration(step.start - first):>8}  {step.name} ({duration(step.took_s)}, {step.component})"
                click.echo(f"{text} {step.detail}".rstrip())
            deadline = deadline or (time.monotonic() + _PUBLICATION_S if _has_settled(line) else 0.0)
            if deadline and (line.published is not None or time.monotonic() > deadline):
                click.echo()
                return
            time.sleep(_POLL_S)

    def _wait_until_created(self) -> Any:
        is_waiting = False
        while True:
            try:
                return self._session.get(self._kind.object(self._session.namespace, self._name))
            except ServerError as error:
                if error.error.reason != "NotFound":
                    raise
            if not is_waiting:
                click.echo(f"waiting for pod {self._session.namespace}/{self._name} to be created", err=True)
                is_waiting = True
            time.sleep(_POLL_S)

    def _records(self, uid: str, *, after: int = 0) -> list[Record]:
        return list(self._session.lines(RECORDS_PATH, {"uid": uid, "after": str(after)}))


def _has_settled(line: PodTimeline) -> bool:
    """Whether the pod has become ready, or has ended."""
    return line.ready is not None or line.state.startswith(("Succeeded", "Failed"))


def _title(pod: Record) -> str:
    node = pod.get("spec", {}).get("nodeName")
    return f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']}" + (f" on node {node}" if node else "")


def _record_lines(records: Sequence[Record]) -> list[str]:
    if not records:
        return ["there are no records of this object"]
    rows = [["AT", "TOOK", "COMPONENT", "ACTION", "USER", "RESULT", "REVISION"]]
    start = records[0]["time"] - records[0].get("took", 0.0)
    rows += [
        [
            duration(record["time"] - record.get("took", 0.0) - start),
            duration(record.get("took", 0.0)),
            record["component"],
            record["action"],
            record.get("actor", "").removeprefix(CONTROLLER_ACCOUNTS),
            str(record.get("outcome", "")),
            str(record.get("revision") or ""),
        ]
        for record in records
    ]
    return [line.rstrip() for line in table_lines(rows)]


__all__ = ["command"]
