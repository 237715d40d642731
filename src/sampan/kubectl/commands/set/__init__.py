"""`kubectl set`: change a feature of objects, one module per feature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command_line.command import LateGroup
from sampan.kubectl.command_line.shared_options import (
    Decorator,
    combine_options,
    dry_run_option,
    field_manager_option,
    filename_flags,
    filename_options,
    output_options,
    selector_option,
)
from sampan.kubectl.errors import KubectlError
from sampan.kubectl.objects.targets import ResourceInfo

FEATURES: Mapping[str, tuple[str, Sequence[str]]] = {
    "env": ("env", ()),
    "image": ("image", ()),
    "resources": ("resources", ()),
    "selector": ("selector", ()),
    "serviceaccount": ("service_account", ("sa",)),
    "subject": ("subject", ()),
}
"""The module and the aliases of each subcommand of `kubectl set`."""
LOCAL_WITHOUT_FILES_MESSAGE = """\
error: you must specify resources by --filename when --local is set.
Example resource specifications include:
   '-f rsrc.yaml'
   '--filename=rsrc.json'"""


command = LateGroup(
    "set",
    package=__name__,
    modules=FEATURES,
    help="Change a feature of objects: environment, image, resources, selector and so on.",
)


def set_options(*, has_selector: bool = True) -> Decorator:
    """Return a decorator that adds the arguments and flags of all subcommands of `kubectl set`."""
    options: list[Decorator] = [
        click.argument("words", nargs=-1),
        output_options(),
        filename_options("to change"),
        click.option("--all", "selects_all", is_flag=True, help="Select all objects of the types in the namespace."),
        click.option("--local", is_flag=True, help="Change the content of the file, not the object on the server."),
        dry_run_option(),
        field_manager_option("kubectl-set"),
    ]
    if has_selector:
        options.append(selector_option())
    return combine_options(*options)


def check_all_and_selector(options: Mapping[str, Any]) -> None:
    if options["selects_all"] and options["selector"]:
        raise KubectlError("cannot set --all and --selector at the same time")


def select_objects(factory: Factory, words: Sequence[str], options: Mapping[str, Any]) -> list[ResourceInfo]:
    """Return the objects that the words or files name. The first error ends the command."""
    is_local = options["local"]
    if is_local and words:
        raise KubectlError(LOCAL_WITHOUT_FILES_MESSAGE)
    builder = factory.resources(
        words=words,
        files=filename_flags(options),
        selector="" if is_local else options.get("selector", ""),
        allows_all=options["selects_all"],
        is_local=is_local,
        fetches_latest=not is_local,
    )
    return list(builder.infos())
