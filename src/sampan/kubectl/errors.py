"""How `kubectl` reports errors on the client side (`cmd/util.CheckErr`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from sampan.machinery.cli_errors import CliError

if TYPE_CHECKING:
    from sampan.machinery.errors import ApiError


class KubectlError(CliError):
    """An error that is printed as `error: MESSAGE`, in as many lines as the message has."""

    def show(self, file: Any = None) -> None:
        click.echo(self.text, err=True)

    @property
    def text(self) -> str:
        """The message as it is printed if it is the only error."""
        message = self.message.removesuffix("\n")
        return message if message.startswith("error: ") else f"error: {message}"

    @property
    def text_in_list(self) -> str:
        """The message as it is printed in a list of errors."""
        return self.message.removesuffix("\n")


class PlainError(KubectlError):
    """An error that is printed without a prefix."""

    @property
    def text(self) -> str:
        return self.message


class UsageError(KubectlError):
    """A command line that the command does not accept; the message ends with a hint at the command's help."""

    def __init__(self, message: str, ctx: click.Context | None = None) -> None:
        path = command_path(ctx or click.get_current_context())
        super().__init__(f"{message}\nSee '{path} -h' for help and examples")


class SilentExit(KubectlError):
    """A failure that has been reported; the command exits with a code other than 0."""

    def __init__(self, code: int = 1) -> None:
        super().__init__("exit")
        self.__dict__["exit_code"] = code

    def show(self, file: Any = None) -> None:
        pass


class ServerError(click.ClickException):
    """An error response of the API server, printed in the format of kubectl."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(error.message)
        self.error = error

    def show(self, file: Any = None) -> None:
        click.echo(self.text, err=True)

    def add_context(self, operation: str) -> ServerError:
        """Prefix the message with the operation that failed, and return the error."""
        self.error.status["message"] = f"{operation}: {self.error.message}"
        return self

    @property
    def text(self) -> str:
        """The message as it is printed if it is the only error."""
        return _invalid_text(self.error) if self.error.reason == "Invalid" else self.text_in_list

    @property
    def text_in_list(self) -> str:
        """The message as it is printed in a list of errors."""
        reason, message = self.error.reason, self.error.message
        if reason == "Unauthorized":
            return f"error: You must be logged in to the server ({message})"
        return f"Error from server ({reason}): {message}" if reason else f"Error from server: {message}"

    @property
    def is_not_found(self) -> bool:
        return self.error.reason == "NotFound"


def _invalid_text(error: ApiError) -> str:
    details = error.details
    subject = "The request is invalid"
    if not details:
        return f"{subject}: {error.message}" if error.message else subject
    causes = list(dict.fromkeys(f"{cause.get('field', '')}: {cause.get('message', '')}" for cause in error.causes))
    if details.get("kind") or details.get("name"):
        subject = f'The {details.get("kind", "")} "{details.get("name", "")}" is invalid'
    elif error.message and not causes:
        subject += f": {error.message}"
    if len(causes) == 1:
        return f"{subject}: {causes[0]}"
    return f"{subject}: \n" + "\n".join(f"* {cause}" for cause in causes) if causes else subject


class ErrorAggregate(CliError):
    """The errors of a command that continues after an error. Raised at the end, it prints all of them."""

    def __init__(self) -> None:
        super().__init__("")
        self.errors: list[CliError | click.ClickException] = []

    def __bool__(self) -> bool:
        return bool(self.errors)

    def add(self, error: click.ClickException) -> None:
        self.errors += error.errors if isinstance(error, ErrorAggregate) else [error]

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Add an error that is raised in the block."""
        try:
            yield
        except click.ClickException as error:
            self.add(error)

    def raise_any(self) -> None:
        """Raise the collected error itself if it is the only one, or all of them together. Return if there is none."""
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            raise self

    def raise_all(self) -> None:
        """Raise all collected errors together, even a single one, which is then printed as in a list. Return if there
        is none."""
        if self.errors:
            raise self

    def show(self, file: Any = None) -> None:
        for error in self.errors:
            click.echo(error_text(error), err=True)


class FoundErrors(ErrorAggregate):
    """An aggregate that ignores NotFound errors of the server."""

    def add(self, error: click.ClickException) -> None:
        if not (isinstance(error, ServerError) and error.is_not_found):
            super().add(error)


def error_text(error: click.ClickException) -> str:
    """Return the text of an error in a list of errors."""
    return error.text_in_list if isinstance(error, (KubectlError, ServerError)) else error.message


def command_path(ctx: click.Context) -> str:
    """Return the command's name as kubectl prints it, without the program that contains kubectl."""
    names: list[str] = []
    current: click.Context | None = ctx
    while current is not None:
        names.append(current.info_name or "")
        if names[-1] == "kubectl":
            break
        current = current.parent
    return " ".join(reversed(names))
