"""`kubectl get`: list objects in tables or in other formats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from sampan.cli.failures import CliError
from sampan.cli.kubectl.kinds import ResourceType, ResourceTypes
from sampan.cli.kubectl.manifest_targets import kind_for
from sampan.cli.kubectl.manifests import read_manifests
from sampan.cli.kubectl.output import as_json, as_yaml, cell_text, table_lines, without_managed_fields
from sampan.cli.kubectl.session import JSON, Refusals, ServerError, Session, open_session
from sampan.cli.kubectl.targets import ResourceTarget, listed, targets

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
_OUTPUTS = ("", "wide", "yaml", "json", "name")
_NO_TYPE = """\
You must specify the type of resource to get. Use "kubectl api-resources" for a complete list of supported resources.

error: Required resource not specified.
Use "kubectl explain <resource>" for a detailed description of that resource (e.g. kubectl explain pods).
See 'kubectl get -h' for help and examples"""


@click.command("get")
@click.argument("words", nargs=-1)
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="F",
    help="File, directory or - (standard input) that names the objects to get.",
)
@click.option("-o", "--output", default="", metavar="FORM", help="Output format: wide, yaml, json or name.")
@click.option("-l", "--selector", default="", help="Label selector to filter by, for example app=web,tier!=cache.")
@click.option("--field-selector", default="", help="Field selector to filter by, for example status.phase=Running.")
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="List objects in all namespaces.")
@click.option("-n", "--namespace", default="", metavar="NS", help="Namespace of the objects.")
@click.option("-w", "--watch", is_flag=True, help="Watch for changes after listing the objects.")
@click.option("--no-headers", is_flag=True, help="Print the table without the header line.")
@click.option("--show-labels", is_flag=True, help="Add a column with all labels.")
@click.option("--show-managed-fields", is_flag=True, help="Keep managedFields in yaml and json output.")
@click.option("--ignore-not-found", is_flag=True, help="Treat an object that does not exist as success.")
@click.pass_obj
def command(flags: dict[str, Any], /, words: tuple[str, ...], files: tuple[str, ...], **options: Any) -> None:
    """List objects.

    \b
    Examples:
      sampan kubectl get pods
      sampan kubectl get pod/a svc/b -o yaml
      sampan kubectl get deploy -A -l app=web
    """
    if options["output"] not in _OUTPUTS:
        raise CliError(f'unable to match a printer suitable for the output format "{options["output"]}"')
    session = open_session(flags | ({"namespace": options["namespace"]} if options["namespace"] else {}))
    if not (words or files):
        raise NoType
    kinds = ResourceTypes(session)
    if files:
        chosen = [
            ResourceTarget(kind_for(kinds, manifest), [manifest.name])
            for manifest in read_manifests(files, action="get")
        ]
    else:
        chosen = targets(kinds, words)
    view = GetPrinter(session, options)
    if options["output"] in ("yaml", "json"):
        view.print_objects(chosen)
    elif options["output"] == "name":
        view.print_names(chosen)
    else:
        view.print_tables(chosen)
    view.refusals.end()


class NoType(CliError):
    """The command line names no resource type."""

    def __init__(self) -> None:
        super().__init__("Required resource not specified.")

    def show(self, file: Any = None) -> None:
        click.echo(_NO_TYPE, err=True)


@dataclass(slots=True)
class GetPrinter:
    session: Session
    options: Mapping[str, Any]
    refusals: Refusals = field(default_factory=Refusals)

    def query(self) -> dict[str, str]:
        query = {"labelSelector": self.options["selector"], "fieldSelector": self.options["field_selector"]}
        return {key: value for key, value in query.items() if value}

    def namespace(self, kind: ResourceType) -> str:
        return "" if self.options["everywhere"] or not kind.is_namespaced else self.session.namespace

    def print_objects(self, targets: Sequence[ResourceTarget]) -> None:
        objects = [obj for target in targets for obj in self._objects(target)]
        if not self.options["show_managed_fields"]:
            objects = [without_managed_fields(obj) for obj in objects]
        if not objects and self.refusals:
            return
        is_one = len(targets) == 1 and len(targets[0].names) == 1 and len(objects) == 1
        value: Any = objects[0] if is_one else _list_of(objects)
        click.echo(as_yaml(value) if self.options["output"] == "yaml" else as_json(value))

    def print_names(self, targets: Sequence[ResourceTarget]) -> None:
        for target in targets:
            for obj in self._objects(target):
                click.echo(f"{target.kind.qualified}/{obj['metadata']['name']}")

    def _objects(self, target: ResourceTarget) -> list[dict[str, Any]]:
        kind, namespace = target.kind, self.namespace(target.kind)
        if target.names:
            return self._responses(target, {}, JSON)
        response = listed(self.session, kind, namespace, self.query())
        title = {"apiVersion": response["apiVersion"], "kind": kind.kind}
        return [{**title, **item} for item in response["items"] or []]

    def print_tables(self, targets: Sequence[ResourceTarget]) -> None:
        is_mixed = len(targets) > 1
        printed = 0
        for target in targets:
            tables = self._tables(target)
            rows = [row for table in tables for row in self._rows(target, table, is_mixed)]
            if not rows:
                continue
            if printed:
                click.echo()
            printed += 1
            head = [] if self.options["no_headers"] else [self._head(target, tables[0])]
            widths: list[int] = []
            for line in table_lines([*head, *rows], widths):
                click.echo(line)
            if self.options["watch"]:
                self._follow(target, tables[0], widths)
        if not (printed or self.refusals or self.options["watch"] or self.options["ignore_not_found"]):
            where = "" if self.options["everywhere"] or not targets[0].kind.is_namespaced else self.session.namespace
            click.echo(f"No resources found in {where} namespace." if where else "No resources found", err=True)

    def _tables(self, target: ResourceTarget) -> list[dict[str, Any]]:
        with_metadata = {"includeObject": "Metadata"}
        if target.names:
            return self._responses(target, with_metadata, TABLE)
        namespace = self.namespace(target.kind)
        return [listed(self.session, target.kind, namespace, self.query() | with_metadata, accept=TABLE)]

    def _responses(self, target: ResourceTarget, query: dict[str, str], accept: str) -> list[dict[str, Any]]:
        """Return the named objects that exist; errors for the others are reported at the end."""
        objects = []
        for name in target.names:
            path = target.kind.object(self.namespace(target.kind), name)
            try:
                objects.append(self.session.get(path, query, accept=accept))
            except ServerError as error:
                if not (self.options["ignore_not_found"] and error.error.reason == "NotFound"):
                    self.refusals.add(error)
        return objects

    def _columns(self, table: dict[str, Any]) -> list[int]:
        is_wide = self.options["output"] == "wide"
        return [at for at, column in enumerate(table["columnDefinitions"]) if is_wide or not column.get("priority")]

    def _head(self, target: ResourceTarget, table: dict[str, Any]) -> list[str]:
        names = [table["columnDefinitions"][at]["name"].upper() for at in self._columns(table)]
        first = ["NAMESPACE"] if self.options["everywhere"] and target.kind.is_namespaced else []
        return [*first, *names, *(["LABELS"] if self.options["show_labels"] else [])]

    def _rows(self, target: ResourceTarget, table: dict[str, Any], is_mixed: bool) -> list[list[str]]:
        columns = self._columns(table)
        return [self._row(target, row, columns, is_mixed) for row in table.get("rows") or []]

    def _row(self, target: ResourceTarget, row: dict[str, Any], columns: list[int], is_mixed: bool) -> list[str]:
        cells = [cell_text(row["cells"][at]) for at in columns]
        if is_mixed:
            cells[0] = f"{target.kind.qualified}/{cells[0]}"
        metadata = row["object"]["metadata"]
        first = [metadata["namespace"]] if self.options["everywhere"] and target.kind.is_namespaced else []
        labels = [",".join(f"{k}={v}" for k, v in sorted(metadata.get("labels", {}).items())) or "<none>"]
        return [*first, *cells, *(labels if self.options["show_labels"] else [])]

    def _follow(self, target: ResourceTarget, table: dict[str, Any], widths: list[int]) -> None:
        query = self.query() | {"watch": "true", "resourceVersion": table["metadata"]["resourceVersion"]}
        if target.names:
            query["fieldSelector"] = f"metadata.name={target.names[0]}"
        path, columns = target.kind.collection(self.namespace(target.kind)), self._columns(table)
        for event in self.session.lines(path, query | {"includeObject": "Metadata"}, accept=TABLE):
            rows = [self._row(target, row, columns, False) for row in event["object"].get("rows") or []]
            for line in table_lines(rows, widths):
                click.echo(line)


def _list_of(objects: list[dict[str, Any]]) -> dict[str, Any]:
    return {"apiVersion": "v1", "items": objects, "kind": "List", "metadata": {"resourceVersion": ""}}
