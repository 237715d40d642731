"""Tables of flags: each component declares its flags as rows, from which options and configurations are made.

A row says how the flag is written and explained. If its value becomes one field of a configuration object, the row
names that field (`target`) and the function that parses and checks the value (`parse`), so that a flag is added in one
place. Values that depend on several flags are computed by the code beside the table.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import click

Command = Callable[..., Any]
Parse = Callable[[str, Any], Any]
"""A function of the name of a flag and its value. It returns the parsed value, and raises CliError for a bad one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    name: str
    """The flag with its dashes; empty for a field that only a configuration file can set."""
    help: str
    default: Any = None
    type: Any = None
    """The type that click converts the value to; text if it is None."""
    metavar: str | None = None
    is_switch: bool = False
    """Whether the flag is boolean: `--flag`, `--flag=true` and `--flag=false`, as in Kubernetes."""
    is_repeatable: bool = False
    short: str = ""
    """A second spelling of the flag, such as `-f`."""
    parameter: str = ""
    """The name of the value among the options of the command, if it is not the name of the flag."""
    config_field: str = ""
    """The field of the component's configuration file that the flag overrides, as a path with dots."""
    target: str = ""
    """The field of the configuration object that receives the value."""
    parse: Parse | None = None

    @property
    def option_name(self) -> str:
        return self.parameter or self.name.removeprefix("--").replace("-", "_")


def add_flags(flags: Iterable[Flag]) -> Callable[[Command], Command]:
    """Return a decorator that adds the flags to a command, in their order."""
    options = [_option(flag) for flag in flags]

    def decorate(command: Command) -> Command:
        return functools.reduce(lambda wrapped, option: option(wrapped), reversed(options), command)

    return decorate


def config_fields(flags: Iterable[Flag], options: Mapping[str, Any]) -> dict[str, Any]:
    """Parse the values of those flags that have a target and that the command has. Return them by target."""
    fields = {}
    for flag in flags:
        if flag.target and flag.option_name in options:
            value = options[flag.option_name]
            fields[flag.target] = flag.parse(flag.name, value) if flag.parse is not None else value
    return fields


def switch(default: bool | None, help: str) -> dict[str, Any]:
    """Return the attributes of a boolean option that accepts `--flag`, `--flag=true` and `--flag=false`, as in
    Kubernetes."""
    return {"type": bool, "is_flag": False, "flag_value": True, "default": default, "help": help}


def _option(flag: Flag) -> Callable[[Command], Command]:
    names = [name for name in (flag.short, flag.name, flag.parameter) if name]
    shows_default = flag.default not in (None, "") and "Default:" not in flag.help
    if flag.is_switch:
        return click.option(*names, show_default=shows_default, **switch(flag.default, flag.help))
    return click.option(
        *names,
        type=flag.type,
        default=flag.default,
        multiple=flag.is_repeatable,
        metavar=flag.metavar,
        help=flag.help,
        show_default=shows_default,
    )
