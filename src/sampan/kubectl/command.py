"""Commands with the flags of kubectl: global flags before or after the command's name, and the syntax of pflag.

The counterparts are `github.com/spf13/cobra` and `github.com/spf13/pflag`. A command is a click command that is made of
a function from a `Factory` and a dataclass of options (`command_line.flags`); the parser and the texts of its errors
are not click's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command_line.flag_parser import FlagError, FlagSet, ParsedFlags
from sampan.kubectl.command_line.flags import OptionSet
from sampan.kubectl.command_line.global_options import GLOBAL_FLAGS, GLOBAL_OPTIONS, check_profile
from sampan.kubectl.errors import KubectlError, SilentExit, UsageError, command_path
from sampan.machinery.cli_errors import CliError, call_with_cli_errors

if TYPE_CHECKING:
    from sampan.kubectl.command_line.preferences import Preferences

T = TypeVar("T")
C = TypeVar("C", bound="KubectlCommand")
_SETTINGS = {"help_option_names": ["-h", "--help"]}
_PARSED = "kubectl-parsed_flags"
"""Key in `ctx.meta`: the `ParsedFlags` of the command line."""
_SUBCOMMAND = "kubectl-subcommand"
PREFERENCES = "kubectl-preferences"
"""Key in `ctx.meta`: the `Preferences` that the user's kuberc file sets for the command line."""
CLUSTERS = "kubectl-clusters"
"""Key in `ctx.meta`: the `LocalClusters` of the program that contains kubectl."""


class KubectlCommand(click.Command):
    """A command of kubectl. `is_interspersed=False` ends the flags at the first word, as for `exec`."""

    def __init__(
        self,
        name: str,
        *,
        options_type: type[Any] | None = None,
        run: Callable[[Factory, Any], None] | None = None,
        is_interspersed: bool = True,
        aliases: Sequence[str] = (),
        **attributes: Any,
    ) -> None:
        self.options_type = options_type
        self._options = OptionSet(options_type) if options_type is not None else None
        self._run = run
        flags = self._options.flags if self._options is not None else []
        super().__init__(name, params=[*flags], context_settings=_SETTINGS, **attributes)
        self.is_interspersed = is_interspersed
        self.aliases = tuple(aliases)

    @classmethod
    def define(
        cls: type[C], name: str, options_type: type[T], **attributes: Any
    ) -> Callable[[Callable[[Factory, T], None]], C]:
        """Return a decorator that makes a command of a function; the help text is the function's docstring."""

        def decorate(run: Callable[[Factory, T], None]) -> C:
            help_text = inspect.cleandoc(run.__doc__ or "")
            return cls(name, options_type=options_type, run=run, **{"help": help_text, **attributes})

        return decorate

    def flag_set(self) -> FlagSet:
        """Return the flags of this command and the global ones. A flag of the command hides a global one."""
        return FlagSet([*GLOBAL_FLAGS, *(param for param in self.params if isinstance(param, click.Option))])

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
        ctx.meta[_PARSED] = parsed
        ctx.obj = self.new_factory(ctx, parsed, preferences)
        check_profile(ctx.obj.options.profile)
        ctx.args = []
        return []

    def new_factory(self, ctx: click.Context, parsed: ParsedFlags, preferences: Preferences | None = None) -> Factory:
        """Return the factory of a command line. A global flag that a flag of the command hides has its default."""
        own = {param.name for param in self.params}
        values = {name: value for name, value in parsed.values.items() if name not in own}
        return Factory(
            GLOBAL_OPTIONS.build(replace(parsed, values=values)),
            ctx.meta[CLUSTERS],
            plugin_policy=preferences.plugin_policy if preferences is not None else None,
        )

    def _check_required(self, values: Mapping[str, Any]) -> None:
        options = [param for param in self.params if isinstance(param, click.Option) and param.required]
        missing = sorted(max(option.opts, key=len)[2:] for option in options if option.name not in values)
        if missing:
            names = ", ".join(f'"{name}"' for name in missing)
            raise KubectlError(f"required flag(s) {names} not set")

    def invoke(self, ctx: click.Context) -> Any:
        try:
            call_with_cli_errors(lambda: self._call(ctx))
            ctx.obj.check_warnings()
        except CliError as error:
            if type(error).show is not CliError.show:
                raise
            raise KubectlError(error.message) from None
        except BrokenPipeError:
            raise SilentExit from None

    def _call(self, ctx: click.Context) -> None:
        if self._run is not None and self._options is not None:
            self._run(ctx.obj, self._options.build(ctx.meta[_PARSED]))

    def get_help(self, ctx: click.Context) -> str:
        from sampan.kubectl.command_line.help_text import help_text

        return help_text(ctx, self)


class KubectlGroup(KubectlCommand, click.Group):
    """A command with sub-commands, each of which also takes the flags before its name.

    If no word names a sub-command, the group runs its own function, if it has one, with the words.
    """

    def __init__(self, name: str, **attributes: Any) -> None:
        super().__init__(name, no_args_is_help=False, **attributes)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        subcommand = self.find_subcommand(ctx, args)
        if subcommand is not None:
            ctx.meta[_SUBCOMMAND] = subcommand
            return []
        ctx.meta[_SUBCOMMAND] = None
        super().parse_args(ctx, args)
        ctx.args = self.flag_set().words(args)
        return []

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from sampan.kubectl.command_line.help_text import write_commands

        write_commands(formatter, ctx, self, "Available Commands")

    def find_subcommand(self, ctx: click.Context, args: Sequence[str]) -> tuple[str, click.Command, list[str]] | None:
        """Return the name of the sub-command, the command and the arguments without that name."""
        position = self.flag_set().position_of_word(args)
        if position is None:
            return None
        word, remaining_args = args[position], [*args[:position], *args[position + 1 :]]
        command = self.get_command(ctx, word)
        return (command.name or word, command, remaining_args) if command is not None else None

    def find_path(self, ctx: click.Context, words: Sequence[str]) -> tuple[str, ...] | None:
        """Return the names of the command that words begin with, such as (set, image); None if the first word is no
        command."""
        command = self.get_command(ctx, words[0]) if words else None
        if command is None:
            return None
        name = command.name or words[0]
        path = command.find_path(ctx, words[1:]) if isinstance(command, KubectlGroup) else None
        return name, *(path or ())

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        for command in self.commands.values():
            if name == command.name or name in getattr(command, "aliases", ()):
                return command
        return None

    def invoke(self, ctx: click.Context) -> Any:
        subcommand = ctx.meta[_SUBCOMMAND]
        if subcommand is None:
            return KubectlCommand.invoke(self, ctx) if self._run is not None else self.report_missing_command(ctx)
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
        self, name: str, *, package: str, modules: Mapping[str, tuple[str, Sequence[str]]], **attributes: Any
    ) -> None:
        super().__init__(name, **attributes)
        self._package, self._modules = package, modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._modules)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        for command_name, (module, aliases) in self._modules.items():
            if name == command_name or name in aliases:
                subcommand: click.Command = import_module(f"{self._package}.{module}").command
                return subcommand
        return None


def command_line_text() -> str:
    """Return the command line of the current command as kubectl records it: the words, then the flags with their
    values."""
    context = click.get_current_context()
    parsed: ParsedFlags = context.meta[_PARSED]
    words = [command_path(context), *parsed.words]
    for param in context.command.params:
        if param.name in parsed.values:
            setting = parsed.values[param.name]
            parts = setting if isinstance(setting, tuple) else (setting,)
            name = max(param.opts, key=len)
            words += [f"{name}={str(part).lower() if isinstance(part, bool) else part}" for part in parts]
    return " ".join(words)
