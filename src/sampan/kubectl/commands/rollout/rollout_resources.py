"""The flags that all commands of `kubectl rollout` share, and the resources that these select."""

from __future__ import annotations

from dataclasses import dataclass

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command_line.flags import arguments
from sampan.kubectl.command_line.shared_flags import FilenameOptions, filename_flags, selector_flag
from sampan.kubectl.errors import ErrorAggregate, KubectlError
from sampan.kubectl.objects.targets import ResourceBuilder, ResourceFetch, ResourceSelection, ResourceSource


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutOptions:
    words: tuple[str, ...] = arguments()
    files: FilenameOptions = filename_flags("to work on")
    selector: str = selector_flag()


def rollout_builder(factory: Factory, options: RolloutOptions) -> ResourceBuilder:
    """Return the resources of a `rollout` command line. A type without names means all objects of the type."""
    if not (options.words or options.files):
        raise KubectlError("required resource not specified")
    return ResourceBuilder(
        factory,
        ResourceSelection(words=options.words, selector=options.selector, allows_all=True),
        ResourceSource(files=options.files),
        ResourceFetch(fetches_latest=True),
    )


def report_no_resources(factory: Factory, errors: ErrorAggregate) -> None:
    """Print that no resources were found, unless there are errors."""
    if not errors:
        click.echo(f"No resources found in {factory.namespace} namespace.", err=True)
