"""`kubectl create`: create objects from files, or with a generator (one module per generator)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.client.raw_request import check_raw_flags, send_raw
from sampan.kubectl.command_line.command import LateGroup
from sampan.kubectl.command_line.shared_options import (
    dry_run_of,
    dry_run_option,
    field_manager_option,
    filename_flags,
    filename_options,
    output_options,
    selector_option,
    validate_option,
    validation_of,
)
from sampan.kubectl.errors import ErrorAggregate, KubectlError, ServerError, UsageError
from sampan.kubectl.objects.last_applied import with_last_applied
from sampan.kubectl.objects.object_writer import (
    ObjectWriter,
    ResultPrinter,
    record_option,
    save_config_option,
    with_change_cause,
)

GENERATORS: Mapping[str, tuple[str, Sequence[str]]] = {
    "clusterrole": ("cluster_role", ()),
    "clusterrolebinding": ("cluster_role_binding", ()),
    "configmap": ("config_map", ("cm",)),
    "cronjob": ("cron_job", ("cj",)),
    "deployment": ("deployment", ("deploy",)),
    "ingress": ("ingress", ("ing",)),
    "job": ("job", ()),
    "namespace": ("namespace", ("ns",)),
    "poddisruptionbudget": ("pod_disruption_budget", ("pdb",)),
    "priorityclass": ("priority_class", ("pc",)),
    "quota": ("quota", ("resourcequota",)),
    "role": ("role", ()),
    "rolebinding": ("role_binding", ()),
    "secret": ("secret", ()),
    "service": ("service", ("svc",)),
    "serviceaccount": ("service_account", ("sa",)),
    "token": ("token", ()),
}
"""The module and the aliases of each generator. A module is imported when its command runs."""


@click.command("create", cls=LateGroup, package=__name__, modules=GENERATORS, invoke_without_command=True)
@filename_options("to create")
@output_options()
@record_option()
@validate_option()
@click.option("--edit", is_flag=True, help="Edit the objects before they are created.")
@click.option("--windows-line-endings", is_flag=True, help="Use Windows line endings in the editor of --edit.")
@save_config_option()
@dry_run_option()
@selector_option("Create only objects with these labels.")
@click.option("--raw", default="", metavar="PATH", help="Path of the server to send the file to with POST.")
@field_manager_option("kubectl-create")
@click.argument("words", nargs=-1)
@click.pass_obj
def command(factory: Factory, /, words: tuple[str, ...], **options: Any) -> None:
    """Create objects from files or standard input."""
    if words:
        raise UsageError(f"Unexpected args: [{' '.join(words)}]")
    dry_run, validation, printer = dry_run_of(options), validation_of(options), ResultPrinter(options)
    files = filename_flags(options)
    if not files:
        raise KubectlError("must specify one of -f and -k")
    files.check()
    if options["raw"]:
        check_raw_flags(options, files)
        send_raw(factory.session, "POST", options["raw"], files.files[0])
        return
    if options["edit"]:
        from sampan.kubectl.commands.edit import edit_before_create

        edit_before_create(factory, options)
        return
    writer = ObjectWriter(
        session=factory.session, field_manager=options["field_manager"], dry_run=dry_run, validation=validation
    )
    errors, count = ErrorAggregate(), 0
    builder = factory.resources(files=files, selector=options["selector"], validates=validation == "Strict")
    for info in builder.infos(errors):
        value = with_last_applied(info.value) if options["save_config"] else info.value
        value = with_change_cause(value, options)
        if dry_run != "client":
            try:
                value = writer.create(info, value)
            except ServerError as error:
                errors.add(error.add_context(f'error when creating "{info.source}"'))
                continue
        count += 1
        printer.print(value, "created")
    errors.raise_any()
    if not count:
        raise KubectlError("no objects passed to create")
