"""How the preferences of a user change a command line: aliases, default flags and permitted credential plugins
(`pkg/kuberc/kuberc.go`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from sampan.kubectl.command_line.flag_parser import FlagError, FlagSet, ParsedFlags, UnknownFlagError, quote_text
from sampan.kubectl.command_line.preference_file import Content, PreferenceError, check_content, load_content

if TYPE_CHECKING:
    from sampan.machinery.client.exec_credentials import PluginPolicy

FindCommand = Callable[[Sequence[str]], tuple[str, ...] | None]
"""Returns the names of the command that words begin with, such as (set, image); None if there is no such command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultFlag:
    name: str
    text: str
    unknown: str
    """The error if the command does not have the flag."""
    invalid: str
    """The error if the flag does not accept the value, without the reason."""

    def set(self, flags: FlagSet, parsed: ParsedFlags) -> None:
        """Set the flag unless the command line sets it. Raise PreferenceError if that is not possible."""
        try:
            flags.set_default(self.name, self.text, parsed)
        except UnknownFlagError:
            raise PreferenceError(self.unknown) from None
        except FlagError as error:
            raise PreferenceError(f"{self.invalid} err: {error}") from None


@dataclass(slots=True, kw_only=True)
class Preferences:
    """The effect of a kuberc file on one command line: the arguments after the expansion of an alias, the default
    flags, and the policy for credential plugins."""

    args: list[str]
    default_flags: Sequence[DefaultFlag] = ()
    plugin_policy: PluginPolicy | None = field(default=None)


def apply_preferences(args: Sequence[str], flags: FlagSet, find_command: FindCommand) -> Preferences:
    """Return the effect of the user's kuberc file on the command line. `flags` are the global flags. Raise
    PreferenceError if the file cannot be used."""
    content = load_content(_kuberc_flag(args)) if args and not _is_turned_off() else None
    if content is None:
        return Preferences(args=list(args))
    check_content(content)
    policy = _plugin_policy(content)
    position = flags.position_of_word(args)
    if position is None:
        return Preferences(args=list(args), plugin_policy=policy)
    command = find_command(flags.words(args))
    if command is not None:
        return Preferences(
            args=list(args), default_flags=_defaults(content, command, find_command), plugin_policy=policy
        )
    alias = next((alias for alias in content["aliases"] if alias["name"] == args[position]), None)
    if alias is None or position > 0:  # flags cannot stand before an alias, nor before a plugin
        return Preferences(args=list(args), plugin_policy=policy)
    preferences = _expand(alias, args[1:], find_command)
    preferences.plugin_policy = policy
    if any((entry.get("command") or "").split() == [alias["name"]] for entry in content["defaults"]):
        raise PreferenceError(f"alias {alias['name']} can not be overridden")
    return preferences


def _is_turned_off() -> bool:
    import os

    return os.environ.get("KUBECTL_KUBERC", "").lower() == "false"


def _kuberc_flag(args: Sequence[str]) -> str:
    """Return the value of --kuberc; empty if the flag is not set. The command line has not been parsed yet."""
    for position, word in enumerate(args):
        if word == "--":
            break
        value = word.partition("=")[2] if word.startswith("--kuberc=") else None
        if word == "--kuberc":
            value = args[position + 1] if position + 1 < len(args) else ""
        if value is not None:
            if not value:
                raise PreferenceError("kuberc file is not found")
            return value
    return ""


def _plugin_policy(content: Content) -> PluginPolicy | None:
    name, commands = content.get("credentialPluginPolicy") or "", content.get("credentialPluginAllowlist")
    if not name and commands is None:
        return None
    from sampan.machinery.client.exec_credentials import CredentialError, PluginPolicy

    try:
        return PluginPolicy(name, None if commands is None else tuple(commands))
    except CredentialError as error:
        raise PreferenceError(str(error)) from None


def _defaults(content: Content, command: tuple[str, ...], find_command: FindCommand) -> list[DefaultFlag]:
    """Return the default flags of a command. As in kubectl, commands with the same last word share them."""
    default_flags = []
    for entry in content["defaults"]:
        name = entry.get("command") or ""
        target = find_command(name.split())
        if target is None:
            click.echo(f"Warning: command {quote_text(name)} not found to set kuberc override", err=True)
        elif target[-1:] == command[-1:]:
            default_flags += [
                DefaultFlag(
                    name=flag,
                    text=text,
                    unknown=f"invalid flag {flag} for command {name}",
                    invalid=f"could not apply override value {text} to flag {flag} in command {name}",
                )
                for flag, text in _options(entry)
            ]
    return default_flags


def _expand(alias: Content, args: Sequence[str], find_command: FindCommand) -> Preferences:
    name, words = str(alias["name"]), (alias.get("command") or "").split()
    command = find_command(words)
    if command is None:
        raise PreferenceError(
            f"command {quote_text(alias.get('command') or '')} not found "
            f"to set alias {quote_text(name)}: [{' '.join(words)}]"
        )
    default_flags = [
        DefaultFlag(
            name=flag,
            text=text,
            unknown=f"invalid alias flag {flag} in alias {name}",
            invalid=f"could not apply value {text} to flag {flag} in alias {name}",
        )
        for flag, text in _options(alias)
    ]
    first, last = alias.get("prependArgs") or (), alias.get("appendArgs") or ()
    expanded = [*command, *(part or "" for part in first), *args, *(part or "" for part in last)]
    return Preferences(args=expanded, default_flags=default_flags)


def _options(entry: Content) -> list[tuple[str, str]]:
    return [(option.get("name") or "", option.get("default") or "") for option in entry["options"]]
