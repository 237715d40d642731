"""Commands with the flags of kubectl: global flags before or after the command's name, and the syntax of pflag.

The counterparts are `github.com/spf13/cobra` and `github.com/spf13/pflag`. A command is a click command whose options
and single argument `words` are declared as usual; only the parser and the texts of its errors differ from click's. The
callback gets a `Factory` from `click.pass_obj`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command_line.flag_parser import FlagError, FlagSet
from sampan.kubectl.command_line.global_options import GLOBAL_OPTIONS, check_profile
from sampan.kubectl.errors import KubectlError, SilentExit, UsageError, command_path
from sampan.machinery.cli_errors import CliError, call_with_cli_errors

if TYPE_CHECKING:
    from sampan.kubectl.command_line.preferences import Preferences

_SETTINGS = {"help_option_names": ["-h", "--help"]}
ARGS_BEFORE_DASH = "kubectl-args_before_dash"
"""Key in `ctx.meta`: the number of words before `--`, or -1 without one."""
PREFERENCES = "kubectl-preferences"
"""Key in `ctx.meta`: the `Preferences` that the user's kuberc file sets for the command line."""
CLUSTERS = "kubectl-clusters"
"""Key in `ctx.meta`: the `LocalClusters` of the program that contains kubectl."""
CHANGED_FLAGS = "kubectl-changed_flags"
"""Key in `ctx.meta`: the names of parameters that the command line sets."""


class KubectlCommand(click.Command):
    """A command of kubectl. `is_interspersed=False` ends the flags at the first word, as for `exec`."""

    def __init__(
        self, name: str | None, *args: Any, is_interspersed: bool = True, aliases: Sequence[str] = (), **attributes: Any
    ) -> None:
        attributes["context_settings"] = _SETTINGS | attributes.get("context_settings", {})
        super().__init__(name, *args, **attributes)
        self.is_interspersed = is_interspersed
        self.aliases = tuple(aliases)

    def flag_set(self) -> FlagSet:
        """Return the flags of this command and the global ones. A flag of the command hides a global one."""
        return FlagSet([*GLOBAL_OPTIONS, *(param for param in self.params if isinstance(param, click.Option))])

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return self.params

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        flags = self.flag_set()
        try:
            parsed = flags.parse(args, is_interspersed=self.is_interspersed)
        except FlagError as error:
            raise KubectlError(f"{error}\nSee '{command_path(ctx)} --help' for usage.") from None
        if parsed.has_help:
            click.echo(self.get_help(ctx), color=ctx.color)
            ctx.exit()
        preferences: Preferences | None = ctx.meta.get(PREFERENCES)
        for default in preferences.default_flags if preferences is not None else ():
            default.set(flags, parsed)
        for text in parsed.deprecations:
            click.echo(text, err=True)
        self._check_required(parsed.values)
        ctx.meta[ARGS_BEFORE_DASH], ctx.meta[CHANGED_FLAGS] = parsed.args_before_dash, tuple(parsed.values)
        ctx.params |= self._collect_option_values(parsed.values)
        for param in self.params:
            if isinstance(param, click.Argument):
                ctx.params[str(param.name)] = tuple(parsed.words)
        own = {param.name for param in self.params if isinstance(param, click.Option)}
        ctx.obj = Factory(
            {
                option.name or "": _value(option, {} if option.name in own else parsed.values)
                for option in GLOBAL_OPTIONS
            },
            ctx.meta[CLUSTERS],
            plugin_policy=preferences.plugin_policy if preferences is not None else None,
        )
        check_profile(str(ctx.obj.flags["profile"]))
        ctx.args = []
        return []

    def _check_required(self, values: Mapping[str, Any]) -> None:
        options = [param for param in self.params if isinstance(param, click.Option) and param.required]
        missing = sorted(max(option.opts, key=len)[2:] for option in options if option.name not in values)
        if missing:
            names = ", ".join(f'"{name}"' for name in missing)
            raise KubectlError(f"required flag(s) {names} not set")

    def _collect_option_values(self, values: Mapping[str, Any]) -> dict[str, Any]:
        options = [param for param in self.params if isinstance(param, click.Option) and param.expose_value]
        return {str(option.name): _value(option, values) for option in options}

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = call_with_cli_errors(lambda: click.Command.invoke(self, ctx))
            if isinstance(ctx.obj, Factory):
                ctx.obj.check_warnings()
            return result
        except CliError as error:
            if type(error).show is not CliError.show:
                raise
            raise KubectlError(error.message) from None
        except BrokenPipeError:
            raise SilentExit from None

    def get_help(self, ctx: click.Context) -> str:
        from sampan.kubectl.command_line.help_text import help_text

        return help_text(ctx, self)


class KubectlGroup(KubectlCommand, click.Group):
    """A command with sub-commands, each of which also takes the flags before its name.

    If no word names a sub-command, the group runs its own callback, if it has one, with the words.
    """

    def __init__(self, name: str | None, *args: Any, **attributes: Any) -> None:
        attributes.setdefault("no_args_is_help", False)
        super().__init__(name, *args, **attributes)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        subcommand = self.find_subcommand(ctx, args)
        if subcommand is not None:
            ctx.meta["kubectl-subcommand"] = subcommand
            return []
        ctx.meta["kubectl-subcommand"] = None
        super().parse_args(ctx, args)
        ctx.args = self.flag_set().words(args)
        return []

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from sampan.kubectl.command_line.help_text import write_commands

        write_commands(formatter, ctx, self, "Available Commands")

    def find_subcommand(self, ctx: click.Context, args: Sequence[str]) -> tuple[str, click.Command, list[str]] | None:
        """Return the name of the sub-command, the command and the arguments without that name."""
        at = self.flag_set().position_of_word(args)
        if at is None:
            return None
        command = self.get_command(ctx, args[at])
        return (command.name or args[at], command, [*args[:at], *args[at + 1 :]]) if command is not None else None

    def find_path(self, ctx: click.Context, words: Sequence[str]) -> tuple[str, ...] | None:
        """Return the names of the command that words begin with, such as (set, image); None if the first word is no
        command."""
        command = self.get_command(ctx, words[0]) if words else None
        if command is None:
            return None
        name = command.name or words[0]
        rest = command.find_path(ctx, words[1:]) if isinstance(command, KubectlGroup) else None
        return name, *(rest or ())

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        for command in self.commands.values():
            if name == command.name or name in getattr(command, "aliases", ()):
                return command
        return None

    def invoke(self, ctx: click.Context) -> Any:
        subcommand = ctx.meta["kubectl-subcommand"]
        if subcommand is None:
            if self.callback is not None and self.invoke_without_command:
                return KubectlCommand.invoke(self, ctx)
            return self.report_missing_command(ctx)
        name, command, args = subcommand
        with command.make_context(name, args, parent=ctx) as inner:
            return command.invoke(inner)

    def report_missing_command(self, ctx: click.Context) -> None:
        """Print the help, or report a word that is not a sub-command."""
        if ctx.args:
            raise UsageError(f'unknown command "{ctx.args[0]}"', ctx)
        click.echo(self.get_help(ctx), color=ctx.color, err=True)
        raise SilentExit


class LateGroup(KubectlGroup):
    """A group that imports the module of a sub-command when it is used. `modules` has the name of the module in
    `package`, and the aliases, of each sub-command."""

    def __init__(
        self,
        name: str | None,
        *args: Any,
        package: str,
        modules: Mapping[str, tuple[str, Sequence[str]]],
        **attributes: Any,
    ) -> None:
        super().__init__(name, *args, **attributes)
        self._package, self._modules = package, modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._modules)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        for command_name, (module, aliases) in self._modules.items():
            if name == command_name or name in aliases:
                subcommand: click.Command = import_module(f"{self._package}.{module}").command
                return subcommand
        return None


def _value(option: click.Option, values: Mapping[str, Any]) -> Any:
    if option.name in values:
        return values[str(option.name)]
    default = option.default() if callable(option.default) else option.default
    if option.multiple:
        return tuple(default) if isinstance(default, (list, tuple)) else ()
    if option.is_flag:
        return bool(default) if isinstance(default, bool) else False
    return default if isinstance(default, (str, int, float)) else None
