"""The exit codes of all commands, for `sampan help exit-codes` and docs/cli.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExitCode:
    code: str
    commands: str
    meaning: str


EXIT_CODES: Sequence[ExitCode] = (
    ExitCode("0", "all", "The command has done what it was told to do."),
    ExitCode(
        "1",
        "all",
        "The command has failed: an invalid value or file, a port in use, an error of the server, or a bug of Sampan, "
        "whose traceback is in a file that the message names.",
    ),
    ExitCode("2", "all", "The command line cannot be parsed: an unknown command or flag, a value of the wrong type."),
    ExitCode("130", "all", "Ctrl-C has interrupted the command."),
    ExitCode("1", "status, service status", "The selected cluster or service is not running."),
    ExitCode("1", "doctor", "A check has the result error. Warnings do not change the exit code."),
    ExitCode("1", "kubectl diff", "There are differences."),
    ExitCode("2 and more", "kubectl diff", "The comparison itself has failed."),
    ExitCode("1 to 255", "kubectl exec, run, attach", "The exit code of the command in the container."),
    ExitCode("any", "kubectl, plug-ins", "The exit code of the plug-in on PATH."),
)
