"""`kubectl create`: create objects from files, or with a generator (one module per generator)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.client.raw_request import check_raw_flags, send_raw
from sampan.kubectl.command import LateGroup
from sampan.kubectl.command_line.flags import arguments, bool_flag, string_flag
from sampan.kubectl.command_line.shared_flags import (
    FilenameOptions,
    dry_run_flag,
    dry_run_strategy,
    field_manager_flag,
    filename_flags,
    record_flag,
    save_config_flag,
    selector_flag,
    validate_flag,
    validation_directive,
)
from sampan.kubectl.errors import ErrorAggregate, KubectlError, ServerError, UsageError
from sampan.kubectl.objects.last_applied import with_last_applied
from sampan.kubectl.objects.object_writer import ObjectWriter, with_change_cause
from sampan.kubectl.objects.targets import ResourceBuilder, ResourceSelection, ResourceSource
from sampan.kubectl.printers import OutputOptions, output_flags
from sampan.kubectl.printers.results import ResultPrinter

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


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateOptions:
    files: FilenameOptions = filename_flags("to create")
    output: OutputOptions = output_flags()
    record: bool = record_flag()
    validate: str = validate_flag()
    edit: bool = bool_flag("--edit", help="Edit the objects before they are created.")
    windows_line_endings: bool = bool_flag(
        "--windows-line-endings", help="Use Windows line endings in the editor of --edit."
    )
    save_config: bool = save_config_flag()
    dry_run: str = dry_run_flag()
    selector: str = selector_flag("Create only objects with these labels.")
    raw: str = string_flag("--raw", metavar="PATH", help="Path of the server to send the file to with POST.")
    field_manager: str = field_manager_flag("kubectl-create")
    words: tuple[str, ...] = arguments()


@LateGroup.define("create", CreateOptions, package=__name__, modules=GENERATORS)
def command(factory: Factory, options: CreateOptions) -> None:
    """Create objects from files or standard input."""
    if options.words:
        raise UsageError(f"Unexpected args: [{' '.join(options.words)}]")
    dry_run = dry_run_strategy(options.dry_run)
    validation = validation_directive(options.validate)
    printer = ResultPrinter(options.output, dry_run)
    files = options.files
    if not files:
        raise KubectlError("must specify one of -f and -k")
    files.check()
    if options.raw:
        check_raw_flags(options.raw, files, options.output.format, selector=options.selector, is_edited=options.edit)
        send_raw(factory.session, "POST", options.raw, files.filenames[0])
        return
    if options.edit:
        from sampan.kubectl.commands.edit.editor import CreateEdit

        edit = CreateEdit(factory, options, saves_config=options.save_config)
        for info in ResourceBuilder(factory, source=ResourceSource(files=files)).infos():
            edit.run([info])
        return
    writer = ObjectWriter(
        session=factory.session, field_manager=options.field_manager, dry_run=dry_run, validation=validation
    )
    errors, count = ErrorAggregate(), 0
    builder = ResourceBuilder(
        factory,
        ResourceSelection(selector=options.selector),
        ResourceSource(files=files, validates=validation == "Strict"),
    )
    for info in builder.infos(errors):
        value = with_last_applied(info.value) if options.save_config else info.value
        value = with_change_cause(value, options.record)
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
