"""`sampan trace`: show the records of the flight recorder about an object, oldest first."""

from __future__ import annotations

import time
from typing import Any

import click

from sampan.api.ages import human
from sampan.cli.failures import CliError
from sampan.cli.kubectl.connection_options import connection_options
from sampan.cli.kubectl.kinds import ResourceTypes
from sampan.cli.kubectl.output import as_json, table_lines
from sampan.cli.kubectl.session import open_session
from sampan.cli.kubectl.targets import targets

_RECORDS = "/debug/flightrecorder"


@click.command("trace")
@click.argument("words", nargs=-1, required=True, metavar="KIND/NAME")
@click.option("-n", "--namespace", default="", metavar="NS", help="Namespace of the object.")
@click.option("-o", "--output", default="", metavar="FORM", help="Output format: json prints all recorded fields.")
@connection_options
def command(words: tuple[str, ...], output: str, **options: Any) -> None:
    """Show the recent history of an object.

    For each recorded action it shows what was done, by which component, and the outcome.

    \b
    Example:
      sampan trace pod/NAME
    """
    if output not in ("", "json"):
        raise CliError(f"-o: there is no {output!r}; supported: json")
    session = open_session(options)
    for target in targets(ResourceTypes(session), words):
        for name in target.names:
            obj = session.get(target.kind.object(session.namespace, name))
            records = list(session.lines(_RECORDS, {"uid": obj["metadata"]["uid"]}))
            click.echo(as_json(records) if output == "json" else "\n".join(_lines(records)))


def _lines(records: list[dict[str, Any]]) -> list[str]:
    if not records:
        return ["no records of this object"]
    now = time.time()
    rows = [["AGO", "WHO", "DID", "FOR", "OUTCOME"]]
    rows += [
        [
            human(max(0.0, now - record["time"])),
            record["component"],
            record["action"],
            record.get("actor", ""),
            _outcome(record),
        ]
        for record in records
    ]
    return [line.rstrip() for line in table_lines(rows)]


def _outcome(record: dict[str, Any]) -> str:
    revision = record.get("revision")
    return str(record.get("outcome", "")) + (f" (version {revision})" if revision else "")
