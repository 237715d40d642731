"""Flags that several commands share, each defined once (`cmd/util/helpers.go`, `genericclioptions`)."""

from __future__ import annotations

from dataclasses import dataclass

from sampan.kubectl.command_line.flag_parser import ValueSyntaxError, parse_bool, quote_text
from sampan.kubectl.command_line.flags import (
    arguments,
    bool_flag,
    flag_group,
    int_flag,
    optional_string_flag,
    string_flag,
    string_slice_flag,
)
from sampan.kubectl.errors import KubectlError


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOptions:
    """The options of a command without flags of its own, which ignores words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WordOptions:
    """The options of a command without flags of its own."""

    words: tuple[str, ...] = arguments()


@dataclass(frozen=True, slots=True, kw_only=True)
class FilenameOptions:
    """The files with objects: -f, -k and -R."""

    filenames: tuple[str, ...] = string_slice_flag(
        "-f",
        "--filename",
        metavar="FILE",
        help="File, directory, URL or - (standard input) with the objects {action}.",
    )
    kustomize: str = string_flag("-k", "--kustomize", metavar="DIR", help="Directory with a kustomization.")
    recursive: bool = bool_flag("-R", "--recursive", help="Process the directories of -f recursively.")

    def __bool__(self) -> bool:
        return bool(self.filenames or self.kustomize)

    def check(self) -> None:
        if self.filenames and self.kustomize:
            raise KubectlError("only one of -f or -k can be specified")
        if self.kustomize and self.recursive:
            raise KubectlError("the -k flag can't be used with -f or -R")


def filename_flags(action: str, *, has_kustomize: bool = True) -> FilenameOptions:
    """Declare -f, -k and -R. `action` completes the help text: "to create"."""
    return flag_group(FilenameOptions, omitted=() if has_kustomize else ("kustomize",), action=action)


def selector_flag(help: str = "Label selector to filter by, for example app=web,tier!=cache.") -> str:
    return string_flag("-l", "--selector", metavar="SELECTOR", help=help)


def field_selector_flag() -> str:
    return string_flag("--field-selector", metavar="SELECTOR", help="Field selector, for example status.phase=Running.")


def all_flag(help: str = "Select all objects of the types in the namespace.") -> bool:
    return bool_flag("--all", help=help)


def check_all_and_selectors(selects_all: bool, selector: str, field_selector: str = "") -> None:
    for name, value in (("selector", selector), ("field-selector", field_selector)):
        if selects_all and value:
            raise KubectlError(f"cannot set --all and --{name} at the same time")


def all_namespaces_flag() -> bool:
    return bool_flag("-A", "--all-namespaces", help="Work on the objects of all namespaces.")


def dry_run_flag() -> str:
    """Declare --dry-run, whose value `dry_run_strategy` checks."""
    return optional_string_flag(
        "--dry-run",
        default="none",
        implied="unchanged",
        metavar="none|server|client",
        help="With client, only print the object that would be sent; with server, send it without storing it.",
    )


def dry_run_strategy(value: str) -> str:
    """Return `none`, `client` or `server`. A boolean value, and the flag without one, are deprecated forms."""
    if value in ("none", "client", "server"):
        return value
    try:
        return "client" if value == "unchanged" or parse_bool(value) else "none"
    except ValueSyntaxError:
        raise KubectlError(f'Invalid dry-run value ({value}). Must be "none", "server", or "client".') from None


def local_flag() -> bool:
    return bool_flag("--local", help="Change the content of the file, not the object on the server.")


def check_local(is_local: bool, dry_run: str) -> None:
    if is_local and dry_run == "server":
        raise KubectlError("cannot specify --local and --dry-run=server - did you mean --dry-run=client?")


def field_manager_flag(default: str) -> str:
    return string_flag(
        "--field-manager", default=default, metavar="NAME", help="Name of the manager that owns the changed fields."
    )


def validate_flag() -> str:
    """Declare --validate, whose value `validation_directive` checks."""
    return optional_string_flag(
        "--validate",
        default="strict",
        implied="strict",
        metavar="strict|warn|ignore",
        help="Whether the server rejects unknown and duplicate fields, warns about them, or ignores them.",
    )


def validation_directive(value: str) -> str:
    """Return the fieldValidation parameter of requests: Strict, Warn or Ignore."""
    if value in ("strict", "warn", "ignore"):
        return value.capitalize()
    try:
        return "Strict" if parse_bool(value) else "Ignore"
    except ValueSyntaxError:
        raise KubectlError(
            f"invalid - validate option {quote_text(value)}; must be one of: strict (or true), warn, ignore (or false)"
        ) from None


def chunk_size_flag() -> int:
    return int_flag(
        "--chunk-size",
        default=500,
        metavar="N",
        help="Number of objects in each request for a list; 0 requests all at once.",
    )


def subresource_flag(help: str) -> str:
    return string_flag("--subresource", metavar="NAME", help=help)


def record_flag() -> bool:
    """Declare --record, which stores the command line in an annotation (`with_change_cause`)."""
    return bool_flag(
        "--record",
        message="--record will be removed in the future",
        help="Store the command line in an annotation of the object.",
    )


def save_config_flag() -> bool:
    return bool_flag(
        "--save-config",
        help="Store the configuration in the annotation that kubectl apply needs to detect removed fields.",
    )
