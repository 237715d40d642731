"""How the command line reports failures: one line for what the user can fix, a traceback file for bugs.

Exit codes: 1 for every failure, 2 for a command line that cannot be parsed (click prints the usage), 130 after Ctrl-C.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from sampan.host.exception_groups import leaf_exceptions

T = TypeVar("T")

_EXPECTED = frozenset(
    {
        "sampan.controllers.cloud.CloudError",
        "sampan.machinery.client.transport.ConnectionFailed",
        "sampan.machinery.errors.ApiError",
        "sampan.machinery.extras.MissingExtra",
        "sampan.machinery.control_loop.leader_election.LeadershipLost",
        "sampan.network.nodes.host_bridge.NodeNetworkError",
        "sampan.network.pods.addresses.NoAddressLeft",
        "sampan.runtimes.choice.NoRuntime",
        "sampan.runtimes.contract.RuntimeFailure",
        "sampan.runtimes.images.pull.PullFailed",
        "sampan.runtimes.images.registry.RegistryError",
        "sampan.storage.backend.StorageError",
        "sampan.storage.cacher.errors.CacheError",
    }
)
"""Exceptions with a message for users, by name, as importing their modules would slow down every command."""
_CLICK_HANDLED_EXCEPTIONS = (click.exceptions.Exit, click.Abort, BrokenPipeError)
"""Exceptions that click handles."""


class CliError(click.ClickException):
    """A failure that the user can fix. Its message names the flag, file or port; the exit code is 1.

    The message is printed as one line, even if libraries contributed several. Subclasses may use another format.
    """

    def format_message(self) -> str:
        return join_lines(self.message) if type(self) is CliError else self.message


def expected_message(error: Exception) -> str | None:
    """Return the line that explains a failure caused by input or by the machine, or None if the exception is a bug.

    Expected exceptions have a text for users: those of the command line, of the operating system, of a store or a
    runtime, each subclass of ValueError that Sampan defines (an invalid value), and groups of only those.
    """
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, ExceptionGroup):
        return _group_message(error)
    if isinstance(error, OSError):
        return _os_message(error)
    if _is_deliberate(type(error)):
        return join_lines(str(error)) or None
    return None


def join_lines(text: str) -> str:
    return " ".join(text.split())


def call_with_cli_errors(call: Callable[[], T]) -> T:
    """Call a function, and raise CliError for any exception that would print a traceback."""
    try:
        return call()
    except (click.ClickException, *_CLICK_HANDLED_EXCEPTIONS):
        raise
    except Exception as error:
        message = expected_message(error)
        raise CliError(message if message is not None else _bug_message(error)) from error


def _group_message(group: ExceptionGroup[Any]) -> str | None:
    messages = [expected_message(error) if isinstance(error, Exception) else None for error in leaf_exceptions(group)]
    expected = [message for message in messages if message is not None]
    return "; ".join(dict.fromkeys(expected)) if len(expected) == len(messages) else None


def _os_message(error: OSError) -> str | None:
    if not error.strerror:
        return join_lines(str(error)) if _is_deliberate(type(error)) else None
    names = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, (str, bytes))]
    return join_lines(f"{' and '.join(names)}: {error.strerror}" if names else error.strerror)


def _is_deliberate(kind: type[BaseException]) -> bool:
    is_own_value_error = issubclass(kind, (ValueError, OSError)) and kind.__module__.startswith("sampan.")
    return is_own_value_error or any(f"{base.__module__}.{base.__qualname__}" in _EXPECTED for base in kind.__mro__)


def _bug_message(error: Exception) -> str:
    """Write the traceback to a file, and return a message with its path. Printing it would obscure the message, but a
    bug report needs all of it."""
    import sys
    import tempfile
    import traceback

    cause = next(leaf_exceptions(error))
    name, notes = type(cause).__name__, getattr(cause, "__notes__", [])
    shown = join_lines(" ".join([f"{name}: {cause}" if str(cause) else name, *notes]))
    try:
        number, path = tempfile.mkstemp(prefix="sampan-traceback-", suffix=".log")
        with open(number, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"Python {sys.version}\n")
            file.write("".join(traceback.format_exception(error)))
    except OSError as failure:
        return f"unexpected {shown}; the traceback cannot be written: {failure.strerror}"
    return f"unexpected {shown}; this is a bug in Sampan: please open an issue with the traceback, which is in {path}"
