"""`kubectl describe`, in the plain form that any kind can be shown in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import click

from sampan.cli.failures import CliError
from sampan.cli.kubectl.columns import aligned
from sampan.cli.kubectl.events import events_of
from sampan.cli.kubectl.kinds import Kind, Kinds
from sampan.cli.kubectl.session import Session, open_session
from sampan.cli.kubectl.targets import listed, targets

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|-")
_ACRONYMS = frozenset({"API", "URL", "UID", "OSB", "GUID"})
_SHOWN_ABOVE = frozenset({"name", "namespace", "labels", "annotations", "managedFields"})
_NOT_SHOWN = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})
_LONG = 140


@click.command("describe")
@click.argument("words", nargs=-1)
@click.option("-l", "--selector", default="", help="Labels to select by.")
@click.option("-n", "--namespace", default="", metavar="NS", help="The namespace to work in.")
@click.pass_obj
def command(flags: dict[str, Any], words: tuple[str, ...], selector: str, namespace: str) -> None:
    """Show objects in detail; one alone with its events."""
    if not words:
        raise CliError(
            'You must specify the type of resource to describe. Use "kubectl api-resources" for a complete list of '
            "supported resources."
        )
    session = open_session(flags | ({"namespace": namespace} if namespace else {}))
    objects = []
    for target in targets(Kinds(session), words):
        inside = session.namespace if target.kind.is_namespaced else ""
        objects += _objects(session, target.kind, inside, target.names, selector)
    for at, obj in enumerate(objects):
        if at:
            click.echo("\n")
        events = events_of(session, obj) if len(objects) == 1 else []
        click.echo("\n".join(aligned([*describe(obj), *events])))
    if not objects:
        click.echo(f"No resources found in {session.namespace} namespace.", err=True)


def _objects(session: Session, kind: Kind, namespace: str, names: list[str], selector: str) -> list[dict[str, Any]]:
    if names:
        return [session.get(kind.object(namespace, name)) for name in names]
    query = {"labelSelector": selector} if selector else {}
    answer = listed(session, kind, namespace, query)
    return [{"apiVersion": answer["apiVersion"], "kind": kind.kind, **item} for item in answer["items"] or []]


def describe(obj: dict[str, Any]) -> Iterator[str]:
    """Lines whose columns are separated by tabs."""
    metadata = obj["metadata"]
    yield f"Name:\t{metadata['name']}"
    yield f"Namespace:\t{metadata.get('namespace', '')}"
    yield from _under("Labels", [f"{key}={text}" for key, text in sorted((metadata.get("labels") or {}).items())])
    yield from _under("Annotations", list(_annotations(metadata.get("annotations") or {})))
    yield f"API Version:\t{obj['apiVersion']}"
    yield f"Kind:\t{obj['kind']}"
    rest = {key: part for key, part in obj.items() if key not in ("apiVersion", "kind")}
    rest["metadata"] = {key: part for key, part in metadata.items() if key not in _SHOWN_ABOVE}
    yield from _nested(rest, 0)


def _under(title: str, texts: list[str]) -> Iterator[str]:
    yield f"{title}:\t{texts[0] if texts else '<none>'}"
    yield from (f"\t{text}" for text in texts[1:])


def _annotations(values: dict[str, str]) -> Iterator[str]:
    """Long ones begin on a line of their own and are cut."""
    for key, text in sorted(values.items()):
        text = text.removesuffix("\n")
        if key in _NOT_SHOWN:
            continue
        if len(key) + len(text) + 2 <= _LONG and "\n" not in text:
            yield f"{key}: {text}"
            continue
        yield f"{key}:"
        yield from (f"  {_shortened(line, _LONG - 2)}" for line in text.split("\n"))


def _shortened(text: str, most: int) -> str:
    return f"{text[:most]}..." if len(text) > most else text


def _nested(values: dict[str, Any], depth: int) -> Iterator[str]:
    indent = "  " * depth
    for key, part in sorted(values.items()):
        if isinstance(part, dict):
            yield f"{indent}{title(key)}:"
            yield from _nested(part, depth + 1)
        elif isinstance(part, list):
            yield f"{indent}{title(key)}:"
            for item in part:
                yield from _nested(item, depth + 1) if isinstance(item, dict) else [f"{indent}  {_text(item)}"]
        else:
            yield f"{indent}{title(key)}:\t{_text(part)}"


def _text(value: Any) -> str:
    if value is None:
        return "<nil>"
    return str(value).lower() if isinstance(value, bool) else str(value)


def title(field: str) -> str:
    """`creationTimestamp` as `Creation Timestamp`; names with other signs in them stay."""
    if not re.fullmatch(r"[A-Za-z-]+", field):
        return field
    words = _WORDS.findall(field)
    return " ".join(word.upper() if word.upper() in _ACRONYMS else word[:1].upper() + word[1:] for word in words)
