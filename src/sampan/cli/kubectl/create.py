"""`kubectl create -f`: create objects from files."""

from __future__ import annotations

from typing import Any

import click

from sampan.cli.kubectl.command import KubectlCommand
from sampan.cli.kubectl.errors import ErrorAggregate, KubectlError
from sampan.cli.kubectl.factory import Factory
from sampan.cli.kubectl.options import (
    dry_run_of,
    dry_run_option,
    field_manager_option,
    filename_flags,
    filename_options,
    validate_option,
    validation_of,
)
from sampan.cli.kubectl.printers import print_result
from sampan.cli.kubectl.session import ServerError


@click.command("create", cls=KubectlCommand)
@filename_options("to create")
@dry_run_option()
@field_manager_option("kubectl-create")
@validate_option()
@click.pass_obj
def command(factory: Factory, /, **options: Any) -> None:
    """Create objects from files or standard input."""
    files = filename_flags(options)
    if not files:
        raise KubectlError("must specify one of -f and -k")
    dry_run = dry_run_of(options)
    query = {"fieldManager": options["field_manager"], "fieldValidation": validation_of(options)}
    query |= {"dryRun": "All"} if dry_run == "server" else {}
    errors, count = ErrorAggregate(), 0
    for info in factory.resources(files=files, validates=True).infos(errors):
        count += 1
        try:
            if dry_run != "client":
                info.value = factory.session.send("POST", info.collection, query, body=info.value)
        except ServerError as error:
            errors.add(error.about(f'error when creating "{info.source}"'))
            continue
        info.name = (info.value.get("metadata") or {}).get("name", "")
        print_result(info, "created", dry_run=dry_run)
    errors.raise_any()
    if not count:
        raise KubectlError("no objects passed to create")
