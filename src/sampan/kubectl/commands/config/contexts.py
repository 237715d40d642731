"""`kubectl config`: commands that list, choose, rename and delete entries of kubeconfig files."""

from __future__ import annotations

from dataclasses import dataclass

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flag_parser import quote_text
from sampan.kubectl.command_line.flags import arguments, bool_flag, string_flag
from sampan.kubectl.command_line.shared_flags import NoOptions, WordOptions
from sampan.kubectl.commands.config.files import ConfigFiles, usage_failure
from sampan.kubectl.errors import ErrorAggregate, KubectlError, UsageError
from sampan.kubectl.printers.table import print_table

_COLUMNS = ["CURRENT", "NAME", "CLUSTER", "AUTHINFO", "NAMESPACE"]
_NO_CONTEXT = 'warning: this removed your active context, use "kubectl config use-context" to select a different one'


@KubectlCommand.define("current-context", NoOptions)
def current_context(factory: Factory, options: NoOptions) -> None:
    """Print the name of the current context."""
    name = ConfigFiles(factory.options.kubeconfig).load().current_context
    if not name:
        raise KubectlError("current-context is not set")
    click.echo(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetContextsOptions:
    words: tuple[str, ...] = arguments()
    no_headers: bool = bool_flag("--no-headers", help="Print the table without the header line.")
    output: str = string_flag("-o", "--output", metavar="FORMAT", help="Output format: name.")


@KubectlCommand.define("get-contexts", GetContextsOptions)
def get_contexts(factory: Factory, options: GetContextsOptions) -> None:
    """List the contexts, or those with the given names."""
    if options.output not in ("", "name"):
        reason = "is not available in kubectl config get-contexts; resetting to default output format"
        raise KubectlError(f"--output {options.output} {reason}")
    config, errors = ConfigFiles(factory.options.kubeconfig).load(), ErrorAggregate()
    contexts = config.entries["contexts"]
    for name in options.words:
        if name not in contexts:
            errors.add(KubectlError(f"context {name} not found"))
    names = sorted(name for name in (options.words or contexts) if name in contexts)
    if options.output == "name":
        for name in names:
            click.echo(name)
    else:
        rows = [] if options.no_headers else [_COLUMNS]
        for name in names:
            context = contexts[name]
            fields = [str(context.get(key) or "") for key in ("cluster", "user", "namespace")]
            rows.append(["*" if name == config.current_context else " ", name, *fields])
        print_table(rows)
    errors.raise_any()


@KubectlCommand.define("get-clusters", NoOptions)
def get_clusters(factory: Factory, options: NoOptions) -> None:
    """List the clusters."""
    _print_names(factory, "clusters")


@KubectlCommand.define("get-users", NoOptions)
def get_users(factory: Factory, options: NoOptions) -> None:
    """List the users."""
    _print_names(factory, "users")


def _print_names(factory: Factory, section: str) -> None:
    for name in ["NAME", *sorted(ConfigFiles(factory.options.kubeconfig).load().entries[section])]:
        click.echo(name)


@KubectlCommand.define("use-context", WordOptions, aliases=("use",))
def use_context(factory: Factory, options: WordOptions) -> None:
    """Make a context the current one."""
    if len(options.words) != 1:
        raise usage_failure(f"Unexpected args: [{' '.join(options.words)}]")
    files = ConfigFiles(factory.options.kubeconfig)
    if not options.words[0]:
        raise KubectlError("empty context names are not allowed")
    if options.words[0] not in files.load().entries["contexts"]:
        raise KubectlError(f"no context exists with the name: {quote_text(options.words[0])}")
    files.write_current_context(options.words[0])
    click.echo(f"Switched to context {quote_text(options.words[0])}.")


@KubectlCommand.define("rename-context", WordOptions)
def rename_context(factory: Factory, options: WordOptions) -> None:
    """Rename a context."""
    if len(options.words) != 2:
        raise usage_failure(f"Unexpected args: [{' '.join(options.words)}]")
    old, new = options.words
    if not new:
        raise KubectlError("You must specify a new non-empty context name")
    files = ConfigFiles(factory.options.kubeconfig)
    config = files.load()
    contexts = config.entries["contexts"]
    if old not in contexts:
        raise KubectlError(f"cannot rename the context {quote_text(old)}, it's not in {files.default_path}")
    if new in contexts:
        reason = f"the context {quote_text(new)} already exists in {files.default_path}"
        raise KubectlError(f"cannot rename the context {quote_text(old)}, {reason}")
    files.write_entry("contexts", new, contexts[old])
    files.write_entry("contexts", old, None)
    if config.current_context == old:
        files.write_current_context(new)
    click.echo(f"Context {quote_text(old)} renamed to {quote_text(new)}.")


@KubectlCommand.define("delete-context", WordOptions)
def delete_context(factory: Factory, options: WordOptions) -> None:
    """Delete a context."""
    if len(options.words) != 1:
        click.echo(click.get_current_context().get_help())
        return
    files = ConfigFiles(factory.options.kubeconfig)
    config = files.load()
    if options.words[0] not in config.entries["contexts"]:
        raise KubectlError(f"cannot delete context {options.words[0]}, not in {files.default_path}")
    if config.current_context == options.words[0]:
        click.echo(_NO_CONTEXT, err=True)
    files.write_entry("contexts", options.words[0], None)
    click.echo(f"deleted context {options.words[0]} from {files.default_path}")


@KubectlCommand.define("delete-cluster", WordOptions)
def delete_cluster(factory: Factory, options: WordOptions) -> None:
    """Delete a cluster."""
    if len(options.words) != 1:
        click.echo(click.get_current_context().get_help())
        return
    _delete(factory, "clusters", "cluster", options.words[0])


@KubectlCommand.define("delete-user", WordOptions)
def delete_user(factory: Factory, options: WordOptions) -> None:
    """Delete a user."""
    if len(options.words) != 1:
        raise UsageError("user to delete is required")
    _delete(factory, "users", "user", options.words[0])


def _delete(factory: Factory, section: str, kind: str, name: str) -> None:
    files = ConfigFiles(factory.options.kubeconfig)
    if name not in files.load().entries[section]:
        raise KubectlError(f"cannot delete {kind} {name}, not in {files.default_path}")
    files.write_entry(section, name, None)
    click.echo(f"deleted {kind} {name} from {files.default_path}")
