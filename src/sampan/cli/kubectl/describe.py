"""`kubectl describe`, in the plain form that any kind can be shown in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from sampan.cli.kubectl.kinds import Kind, Kinds
from sampan.cli.kubectl.printing import table_lines
from sampan.cli.kubectl.session import Session, open_session
from sampan.cli.kubectl.targets import targets


@click.command("describe")
@click.argument("words", nargs=-1)
@click.option("-l", "--selector", default="", help="Labels to select by.")
@click.option("-n", "--namespace", default="", metavar="NS", help="The namespace to work in.")
@click.pass_obj
def command(flags: dict[str, Any], words: tuple[str, ...], selector: str, namespace: str) -> None:
    """Show objects in detail, with their events."""
    session = open_session(flags | ({"namespace": namespace} if namespace else {}))
    first = True
    for target in targets(Kinds(session), words, action="describe"):
        inside = session.namespace if target.kind.is_namespaced else ""
        for obj in _objects(session, target.kind, inside, target.names, selector):
            click.echo("" if first else "\n")
            first = False
            for line in describe(obj):
                click.echo(line)
            for line in events_of(session, obj):
                click.echo(line)


def _objects(session: Session, kind: Kind, namespace: str, names: list[str], selector: str) -> list[dict[str, Any]]:
    if names:
        return [session.get(kind.object(namespace, name)) for name in names]
    query = {"labelSelector": selector} if selector else {}
    answer = session.get(kind.collection(namespace), query)
    return [{"apiVersion": answer["apiVersion"], "kind": kind.kind, **item} for item in answer["items"] or []]


def describe(obj: dict[str, Any]) -> Iterator[str]:
    metadata = obj["metadata"]
    rest = {key: part for key, part in obj.items() if key not in ("apiVersion", "kind", "metadata")}
    shown = {
        k: v for k, v in metadata.items() if k not in ("name", "namespace", "labels", "annotations", "managedFields")
    }
    head = [
        ["Name:", metadata["name"]],
        ["Namespace:", metadata.get("namespace", "")],
        *_pairs("Labels:", metadata.get("labels") or {}, "="),
        *_pairs("Annotations:", metadata.get("annotations") or {}, ": "),
        ["API Version:", obj["apiVersion"]],
        ["Kind:", obj["kind"]],
    ]
    yield from (f"{key:<13}{text}".rstrip() for key, text in head)
    yield from _nested({"metadata": shown, **rest}, 0)


def _pairs(title: str, values: dict[str, str], sign: str) -> list[list[str]]:
    texts = [f"{key}{sign}{text}" for key, text in sorted(values.items())] or ["<none>"]
    return [[title if at == 0 else "", text] for at, text in enumerate(texts)]


def _nested(values: dict[str, Any], depth: int) -> Iterator[str]:
    width = max((len(title(key)) for key, part in values.items() if not isinstance(part, dict | list)), default=0) + 3
    for key, part in sorted(values.items(), key=lambda pair: title(pair[0])):
        indent = "  " * depth
        if isinstance(part, dict):
            yield f"{indent}{title(key)}:"
            yield from _nested(part, depth + 1)
        elif isinstance(part, list):
            yield f"{indent}{title(key)}:"
            for item in part:
                yield from _nested(item, depth + 1) if isinstance(item, dict) else [f"{indent}  {item}"]
        else:
            yield f"{indent}{title(key) + ':':<{width}}{part}"


def title(field: str) -> str:
    """`creationTimestamp` as `Creation Timestamp`, `clusterIPs` as `Cluster I Ps`, which is what kubectl prints."""
    spaced = "".join(f" {letter}" if letter.isupper() else letter for letter in field)
    return (spaced[:1].upper() + spaced[1:]).strip()


def events_of(session: Session, obj: dict[str, Any]) -> list[str]:
    metadata = obj["metadata"]
    chosen = f"involvedObject.uid={metadata.get('uid', '')}"
    found = session.get(
        f"/api/v1/namespaces/{metadata.get('namespace') or 'default'}/events", {"fieldSelector": chosen}
    )
    items = found["items"] or []
    if not items:
        return ["Events:  <none>"]
    rows = [["  Type", "Reason", "Age", "From", "Message"], ["  ----", "------", "----", "----", "-------"]]
    for item in items:
        source = item.get("source", {}).get("component") or item.get("reportingComponent", "")
        rows.append([f"  {item.get('type', '')}", item.get("reason", ""), "", source, item.get("message", "")])
    return ["Events:", *table_lines(rows)]
