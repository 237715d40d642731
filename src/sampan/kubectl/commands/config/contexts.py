"""`kubectl config`: commands that list, choose, rename and delete entries of kubeconfig files."""

from __future__ import annotations

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command_line.command import KubectlCommand
from sampan.kubectl.command_line.flag_parser import quote_text
from sampan.kubectl.commands.config.files import ConfigFiles, usage_failure
from sampan.kubectl.errors import ErrorAggregate, KubectlError, UsageError
from sampan.kubectl.printers.table import print_table

_COLUMNS = ["CURRENT", "NAME", "CLUSTER", "AUTHINFO", "NAMESPACE"]
_NO_CONTEXT = 'warning: this removed your active context, use "kubectl config use-context" to select a different one'


@click.command("current-context", cls=KubectlCommand)
@click.pass_obj
def current_context(factory: Factory, /) -> None:
    """Print the name of the current context."""
    name = ConfigFiles(factory.flags).load().current_context
    if not name:
        raise KubectlError("current-context is not set")
    click.echo(name)


@click.command("get-contexts", cls=KubectlCommand)
@click.argument("words", nargs=-1)
@click.option("--no-headers", is_flag=True, help="Print the table without the header line.")
@click.option("-o", "--output", default="", metavar="FORMAT", help="Output format: name.")
@click.pass_obj
def get_contexts(factory: Factory, /, words: tuple[str, ...], no_headers: bool, output: str) -> None:
    """List the contexts, or those with the given names."""
    if output not in ("", "name"):
        reason = "is not available in kubectl config get-contexts; resetting to default output format"
        raise KubectlError(f"--output {output} {reason}")
    config, errors = ConfigFiles(factory.flags).load(), ErrorAggregate()
    contexts = config.entries["contexts"]
    for name in words:
        if name not in contexts:
            errors.add(KubectlError(f"context {name} not found"))
    names = sorted(name for name in (words or contexts) if name in contexts)
    if output == "name":
        for name in names:
            click.echo(name)
    else:
        rows = [] if no_headers else [_COLUMNS]
        for name in names:
            context = contexts[name]
            fields = [str(context.get(key) or "") for key in ("cluster", "user", "namespace")]
            rows.append(["*" if name == config.current_context else " ", name, *fields])
        print_table(rows)
    errors.raise_any()


@click.command("get-clusters", cls=KubectlCommand)
@click.pass_obj
def get_clusters(factory: Factory, /) -> None:
    """List the clusters."""
    _print_names(factory, "clusters")


@click.command("get-users", cls=KubectlCommand)
@click.pass_obj
def get_users(factory: Factory, /) -> None:
    """List the users."""
    _print_names(factory, "users")


def _print_names(factory: Factory, section: str) -> None:
    for name in ["NAME", *sorted(ConfigFiles(factory.flags).load().entries[section])]:
        click.echo(name)


@click.command("use-context", cls=KubectlCommand, aliases=("use",))
@click.argument("words", nargs=-1)
@click.pass_context
def use_context(ctx: click.Context, /, words: tuple[str, ...]) -> None:
    """Make a context the current one."""
    if len(words) != 1:
        raise usage_failure(ctx, f"Unexpected args: [{' '.join(words)}]")
    files = ConfigFiles(ctx.obj.flags)
    if not words[0]:
        raise KubectlError("empty context names are not allowed")
    if words[0] not in files.load().entries["contexts"]:
        raise KubectlError(f"no context exists with the name: {quote_text(words[0])}")
    files.write_current_context(words[0])
    click.echo(f"Switched to context {quote_text(words[0])}.")


@click.command("rename-context", cls=KubectlCommand)
@click.argument("words", nargs=-1)
@click.pass_context
def rename_context(ctx: click.Context, /, words: tuple[str, ...]) -> None:
    """Rename a context."""
    if len(words) != 2:
        raise usage_failure(ctx, f"Unexpected args: [{' '.join(words)}]")
    old, new = words
    if not new:
        raise KubectlError("You must specify a new non-empty context name")
    files = ConfigFiles(ctx.obj.flags)
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


@click.command("delete-context", cls=KubectlCommand)
@click.argument("words", nargs=-1)
@click.pass_context
def delete_context(ctx: click.Context, /, words: tuple[str, ...]) -> None:
    """Delete a context."""
    if len(words) != 1:
        click.echo(ctx.get_help())
        return
    files = ConfigFiles(ctx.obj.flags)
    config = files.load()
    if words[0] not in config.entries["contexts"]:
        raise KubectlError(f"cannot delete context {words[0]}, not in {files.default_path}")
    if config.current_context == words[0]:
        click.echo(_NO_CONTEXT, err=True)
    files.write_entry("contexts", words[0], None)
    click.echo(f"deleted context {words[0]} from {files.default_path}")


@click.command("delete-cluster", cls=KubectlCommand)
@click.argument("words", nargs=-1)
@click.pass_context
def delete_cluster(ctx: click.Context, /, words: tuple[str, ...]) -> None:
    """Delete a cluster."""
    if len(words) != 1:
        click.echo(ctx.get_help())
        return
    _delete(ctx.obj, "clusters", "cluster", words[0])


@click.command("delete-user", cls=KubectlCommand)
@click.argument("words", nargs=-1)
@click.pass_context
def delete_user(ctx: click.Context, /, words: tuple[str, ...]) -> None:
    """Delete a user."""
    if len(words) != 1:
        raise UsageError("user to delete is required")
    _delete(ctx.obj, "users", "user", words[0])


def _delete(factory: Factory, section: str, kind: str, name: str) -> None:
    files = ConfigFiles(factory.flags)
    if name not in files.load().entries[section]:
        raise KubectlError(f"cannot delete {kind} {name}, not in {files.default_path}")
    files.write_entry(section, name, None)
    click.echo(f"deleted {kind} {name} from {files.default_path}")
