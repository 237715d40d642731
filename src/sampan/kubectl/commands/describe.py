"""`kubectl describe`: show the details of objects and their events."""

from __future__ import annotations

from dataclasses import dataclass

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import arguments, bool_flag, changed_flags
from sampan.kubectl.command_line.shared_flags import (
    FilenameOptions,
    all_namespaces_flag,
    chunk_size_flag,
    filename_flags,
    selector_flag,
)
from sampan.kubectl.errors import ErrorAggregate, KubectlError, ServerError
from sampan.kubectl.objects.targets import (
    ResourceBuilder,
    ResourceFetch,
    ResourceInfo,
    ResourceSelection,
    ResourceSource,
)

_NO_TYPE = (
    'You must specify the type of resource to describe. Use "kubectl api-resources" for a complete list of supported '
    "resources."
)
_HPA_VERSION = "v2"


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeOptions:
    words: tuple[str, ...] = arguments()
    files: FilenameOptions = filename_flags("to describe")
    selector: str = selector_flag()
    all_namespaces: bool = all_namespaces_flag()
    show_events: bool = bool_flag(
        "--show-events",
        default=True,
        help="Show events about the object. True by default for one object, false for several and for name prefixes.",
    )
    chunk_size: int = chunk_size_flag()
    changed_flags: frozenset[str] = changed_flags()


@KubectlCommand.define("describe", DescribeOptions)
def command(factory: Factory, options: DescribeOptions) -> None:
    """Show the details of objects.

    The events of an object are included if it is the only one. A name that does not exist is taken for a prefix of
    names.
    """
    files = options.files
    if not options.words and not files:
        raise KubectlError(_NO_TYPE)
    errors = ErrorAggregate()
    builder = ResourceBuilder(
        factory,
        ResourceSelection(
            words=options.words, selector=options.selector, all_namespaces=options.all_namespaces, allows_all=True
        ),
        ResourceSource(files=files),
        ResourceFetch(chunk_size=options.chunk_size),
    )
    infos = list(builder.infos(errors))
    is_chosen = "show-events" in options.changed_flags
    shows_events = options.show_events if is_chosen else not errors and len(infos) <= 1
    if _is_missing_name(errors, options.words):
        _describe_prefix(factory, options.words, errors, shows_events=shows_events, chunk_size=options.chunk_size)
        return
    _describe_all(factory, infos, errors, shows_events=shows_events, chunk_size=options.chunk_size)
    if not infos and not errors:
        scope = "" if options.all_namespaces else f" in {factory.namespace} namespace."
        click.echo(f"No resources found{scope}", err=True)
    errors.raise_any()


def _is_missing_name(errors: ErrorAggregate, words: tuple[str, ...]) -> bool:
    return (
        len(words) == 2
        and len(errors.errors) == 1
        and isinstance(errors.errors[0], ServerError)
        and errors.errors[0].is_not_found
    )


def _describe_all(
    factory: Factory, infos: list[ResourceInfo], errors: ErrorAggregate, *, shows_events: bool, chunk_size: int
) -> None:
    messages: set[str] = set()
    separator = ""
    for info in infos:
        try:
            text = _description(factory, info, shows_events=shows_events, chunk_size=chunk_size)
        except (ServerError, KubectlError) as error:
            if error.message not in messages:
                errors.add(error)
                messages.add(error.message)
            continue
        click.echo(f"{separator}{text}", nl=False)
        separator = "\n\n"


def _describe_prefix(
    factory: Factory, words: tuple[str, ...], errors: ErrorAggregate, *, shows_events: bool, chunk_size: int
) -> None:
    """Describe all objects whose names begin with the word that is not the name of an object."""
    builder = ResourceBuilder(
        factory,
        ResourceSelection(words=words[:1], allows_all=True, is_single_type=True),
        fetch=ResourceFetch(chunk_size=chunk_size),
    )
    infos = [info for info in builder.infos() if info.name.startswith(words[1])]
    for info in infos:
        click.echo(_description(factory, info, shows_events=shows_events, chunk_size=chunk_size))
    if not infos:
        errors.raise_any()


def _description(factory: Factory, info: ResourceInfo, *, shows_events: bool, chunk_size: int) -> str:
    from sampan.kubectl.describers import ClusterView, describe

    if not info.value or info.source:
        info.fetch(factory.session)
    value = info.value
    if info.kind.group == "autoscaling" and info.kind.version != _HPA_VERSION:
        path = f"/apis/autoscaling/{_HPA_VERSION}/namespaces/{info.namespace}/{info.kind.plural}/{info.name}"
        value = factory.session.get(path)
    return describe(value, ClusterView(session=factory.session, shows_events=shows_events, chunk_size=chunk_size))
