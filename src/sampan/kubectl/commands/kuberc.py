"""`kubectl kuberc`: show and change the preferences of a user: default flags of commands, and aliases
(`cmd/kuberc`)."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand, KubectlGroup
from sampan.kubectl.command_line.flag_parser import quote_text
from sampan.kubectl.command_line.flags import bool_flag, changed_flags, string_array_flag, string_flag
from sampan.kubectl.command_line.preference_file import LATEST_VERSION, open_error, preference_path, read_document
from sampan.kubectl.errors import KubectlError, PlainError
from sampan.kubectl.printers import OutputOptions, output_flags
from sampan.kubectl.printers.objects import as_yaml
from sampan.machinery.pki.private_files import write_private

_SECTIONS = ("defaults", "aliases", "credentialplugin")
_POLICIES = ("AllowAll", "DenyAll", "Allowlist")


command = KubectlGroup("kuberc", help="Show and change preferences: default flags of commands, and aliases.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewPreferencesOptions:
    output: OutputOptions = output_flags()


@KubectlCommand.define("view", ViewPreferencesOptions)
def view(factory: Factory, options: ViewPreferencesOptions) -> None:
    """Print the preferences."""
    path, is_named = _path(factory.options.kuberc)
    if not path.exists():
        _offer_file(path, is_named)
        return
    preferences = read_document(path)
    title = {key: preferences.get(key) for key in ("kind", "apiVersion")}
    preferences = title | preferences | {key: preferences.get(key) or [] for key in ("defaults", "aliases")}
    output = options.output if options.output.format else replace(options.output, format="yaml")
    output.printer(is_sorted=False).print(preferences)


def _offer_file(path: Path, is_named: bool) -> None:
    """Ask whether to create a kuberc file with recommended options. Raise KubectlError if the user named the missing
    file."""
    if is_named:
        raise KubectlError(f"kuberc file not found at {path}")
    click.echo(f"kuberc file not found at {path}")
    click.echo("Would you like to generate a default kuberc file with recommended options? (y/N): ", nl=False)
    if sys.stdin.readline().strip().lower() == "y":
        _write_document(path, {"defaults": _recommended_defaults()})
        click.echo(f"Updated {path}")


def _recommended_defaults() -> list[dict[str, Any]]:
    return [
        {"command": "apply", "options": [{"name": "server-side", "default": "true"}]},
        {"command": "delete", "options": [{"name": "interactive", "default": "true"}]},
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPreferenceOptions:
    section: str = string_flag(
        "--section", metavar="SECTION", help="Section to change: defaults, aliases, credentialplugin."
    )
    command_name: str = string_flag("--command", metavar="COMMAND", help="Command, for example get or set env.")
    name: str = string_flag("--name", metavar="NAME", help="Name of the alias.")
    policy: str = string_flag(
        "--policy", metavar="POLICY", help="Policy for exec plugins: AllowAll, DenyAll, Allowlist."
    )
    option: tuple[str, ...] = string_array_flag(
        "--option", metavar="FLAG=VALUE", help="Default value of a flag; repeatable."
    )
    prependarg: tuple[str, ...] = string_array_flag(
        "--prependarg", metavar="ARG", help="Argument before those of the command line."
    )
    appendarg: tuple[str, ...] = string_array_flag(
        "--appendarg", metavar="ARG", help="Argument after those of the command line."
    )
    allowlist_entry: tuple[str, ...] = string_array_flag(
        "--allowlist-entry", metavar="command=NAME", help="Exec plugin that is allowed."
    )
    overwrite: bool = bool_flag("--overwrite", help="Replace an entry that exists.")
    changed_flags: frozenset[str] = changed_flags()


@KubectlCommand.define("set", SetPreferenceOptions)
def set_preference(factory: Factory, options: SetPreferenceOptions) -> None:
    """Set default flags of a command, or an alias."""
    if "section" not in options.changed_flags:
        raise PlainError('error: required flag(s) "section" not set')
    path, _ = _path(factory.options.kuberc)
    _check(options)
    preferences = read_document(path) if path.exists() else {}
    flags = [_flag(text) for text in options.option]
    if options.section == "defaults":
        _set_defaults(preferences, options, flags)
    elif options.section == "aliases":
        _set_alias(preferences, options, flags)
    else:
        _set_plugins(preferences, options)
    _write_document(path, preferences)
    click.echo(f"Updated {path}")


def _path(flag: str) -> tuple[Path, bool]:
    """Return the path of the file, and whether the user named it. `flag` is the value of --kuberc."""
    path, is_named = preference_path(flag)
    if path is None:
        raise KubectlError("KUBERC is disabled via KUBERC=off environment variable")
    return path, is_named


def _check(options: SetPreferenceOptions) -> None:
    section = options.section
    if section not in _SECTIONS:
        raise KubectlError(f'--section must be "defaults", "aliases", or "credentialplugin", got: {section}')
    if section == "aliases" and not options.name:
        raise KubectlError("--name is required when --section=aliases")
    if section == "defaults" and options.name:
        raise KubectlError("--name should not be specified when --section=defaults")
    if section == "defaults" and (options.prependarg or options.appendarg):
        raise KubectlError("--prependarg and --appendarg are only valid for --section=aliases")
    if section != "credentialplugin":
        if not options.command_name:
            raise KubectlError("--command is required when --section=aliases or --section=defaults")
        return
    if not options.policy:
        raise KubectlError("--policy is required when --section=credentialplugin")
    if options.policy not in _POLICIES:
        raise KubectlError(f' --policy must be  "AllowAll", "DenyAll", or "Allowlist", got: {options.policy}')
    if (options.policy == "Allowlist") != bool(options.allowlist_entry):
        verb = "is required" if options.policy == "Allowlist" else "may only be used"
        raise KubectlError(f"--allowlist-entry {verb} when --section=credentialplugin and --policy=Allowlist")


def _flag(text: str) -> dict[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise KubectlError(f"invalid option format {quote_text(text)}, expected flag=value")
    return {"name": name.lstrip("-"), "default": value}


def _set_defaults(preferences: dict[str, Any], options: SetPreferenceOptions, flags: list[dict[str, str]]) -> None:
    defaults = preferences["defaults"] = list(preferences.get("defaults") or ())
    name = options.command_name
    for entry in defaults:
        if entry.get("command") == name:
            if not options.overwrite:
                raise KubectlError(f"defaults for command {quote_text(name)} already exist, use --overwrite to replace")
            entry["options"] = flags or entry.get("options")
            return
    defaults.append({"command": name, "options": flags})


def _set_alias(preferences: dict[str, Any], options: SetPreferenceOptions, flags: list[dict[str, str]]) -> None:
    aliases = preferences["aliases"] = list(preferences.get("aliases") or ())
    present = next((entry for entry in aliases if entry.get("name") == options.name), None)
    if present is not None and not options.overwrite:
        raise KubectlError(f"alias {quote_text(options.name)} already exists, use --overwrite to replace")
    values = {"prependArgs": list(options.prependarg), "appendArgs": list(options.appendarg), "options": flags}
    entry: dict[str, Any] = {"name": options.name, "command": options.command_name}
    entry |= {key: value or (present or {}).get(key) for key, value in values.items()}
    entry = {key: value for key, value in entry.items() if value}
    if present is None:
        aliases.append(entry)
    else:
        aliases[aliases.index(present)] = entry


def _set_plugins(preferences: dict[str, Any], options: SetPreferenceOptions) -> None:
    entries = []
    for pair in (pair for text in options.allowlist_entry for pair in text.split(",")):
        name, equals, value = pair.partition("=")
        if not equals:
            raise KubectlError(f"improperly formatted allowlist entry: {quote_text(pair)}")
        if name != "command":
            raise KubectlError(f"unrecognized allowlist entry field: {quote_text(name)}")
        if not value.strip():
            raise KubectlError(f"empty value in allowlist entry for field {quote_text(name)}")
        entries.append({"command": value})
    preferences["credentialPluginPolicy"] = options.policy
    if entries:
        preferences["credentialPluginAllowlist"] = entries


def _write_document(path: Path, preferences: dict[str, Any]) -> None:
    value = {"apiVersion": LATEST_VERSION, "kind": "Preference", "defaults": None, "aliases": None, **preferences}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(path, (as_yaml(value) + "\n").encode())
    except OSError as error:
        raise KubectlError(f"failed to write kuberc file: {open_error(path, error)}") from None


command.add_command(view)
command.add_command(set_preference)
