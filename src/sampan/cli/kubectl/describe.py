"""`kubectl describe`: print some kinds in a layout of their own, all others field by field."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import click

from sampan.cli.failures import CliError
from sampan.cli.kubectl.columns import aligned
from sampan.cli.kubectl.command import KubectlCommand
from sampan.cli.kubectl.describe_events import events_of
from sampan.cli.kubectl.describe_kinds import form_of, heading
from sampan.cli.kubectl.factory import Factory

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|-")
_ACRONYMS = frozenset({"API", "URL", "UID", "OSB", "GUID"})
_SHOWN_ABOVE = frozenset({"name", "namespace", "labels", "annotations", "managedFields"})


@click.command("describe", cls=KubectlCommand)
@click.argument("words", nargs=-1)
@click.option("-l", "--selector", default="", help="Label selector of the objects to describe.")
@click.pass_obj
def command(factory: Factory, words: tuple[str, ...], selector: str) -> None:
    """Show details of objects.

    The events of an object are included if it is the only one.

    \b
    Examples:
      sampan kubectl describe pod NAME
      sampan kubectl describe deployments -l app=web
    """
    if not words:
        raise CliError(
            'You must specify the type of resource to describe. Use "kubectl api-resources" for a complete list of '
            "supported resources."
        )
    session = factory.session
    builder = factory.resources(words=words, selector=selector, allows_all=True, chunk_size=500)
    objects = [info.value for info in builder.infos()]
    for at, obj in enumerate(objects):
        if at:
            click.echo("\n")
        form = form_of(obj)
        lines = form.describe(obj, session) if form is not None else describe(obj)
        has_events = len(objects) == 1 and (form is None or form.has_events)
        click.echo("\n".join(aligned([*lines, *(events_of(session, obj) if has_events else [])])))
    if not objects:
        click.echo(f"No resources found in {session.namespace} namespace.", err=True)


def describe(obj: dict[str, Any]) -> Iterator[str]:
    """Yield the fields of an object as lines with tab-separated columns."""
    metadata = obj["metadata"]
    yield from heading(metadata)
    yield f"API Version:\t{obj['apiVersion']}"
    yield f"Kind:\t{obj['kind']}"
    rest = {key: part for key, part in obj.items() if key not in ("apiVersion", "kind")}
    rest["metadata"] = {key: part for key, part in metadata.items() if key not in _SHOWN_ABOVE}
    yield from _nested(rest, 0)


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
    """Convert a field name to a title, such as `creationTimestamp` to `Creation Timestamp`. Names with other characters
    are unchanged."""
    if not re.fullmatch(r"[A-Za-z-]+", field):
        return field
    words = _WORDS.findall(field)
    return " ".join(word.upper() if word.upper() in _ACRONYMS else word[:1].upper() + word[1:] for word in words)
