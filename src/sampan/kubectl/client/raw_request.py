"""Requests to a path of the server with the content of a file: --raw of create, replace and delete
(`kubectl/pkg/rawhttp`)."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from sampan.kubectl.client.session import Session
from sampan.kubectl.command_line.shared_flags import FilenameOptions
from sampan.kubectl.errors import KubectlError


def check_raw_flags(
    path: str,
    files: FilenameOptions,
    output: str,
    *,
    selector: str = "",
    is_edited: bool = False,
    is_interactive: bool = False,
    needs_file: bool = True,
) -> None:
    """Raise KubectlError for flags that --raw excludes. `path` is the value of --raw, and `output` that of --output."""
    if is_edited:
        raise KubectlError("--raw and --edit are mutually exclusive")
    if is_interactive:
        raise KubectlError("--interactive can not be used with --raw")
    if len(files.filenames) > 1 or (needs_file and not files.filenames):
        raise KubectlError("--raw can only use a single local file or stdin")
    if files.filenames and files.filenames[0].startswith(("http://", "https://")):
        raise KubectlError("--raw cannot read from a url")
    if files.recursive:
        raise KubectlError("--raw and --recursive are mutually exclusive")
    if selector:
        raise KubectlError("--raw and --selector (-l) are mutually exclusive")
    if output:
        raise KubectlError("--raw and --output are mutually exclusive")
    if not path.startswith("/"):
        raise KubectlError(f'--raw must be a valid URL path: parse "{path}": invalid URI for request')


def send_raw(session: Session, method: str, path: str, file: str = "") -> None:
    """Send the content of a file, `-` for standard input, and print the body of the response."""
    import msgspec

    data = b""
    if file == "-":
        data = sys.stdin.buffer.read()
    elif file:
        try:
            data = Path(file).read_bytes()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise KubectlError(f"error reading {file}. Caused by: open {file}: {reason}") from None
    target, _, query = path.partition("?")
    parameters = dict(part.partition("=")[::2] for part in query.split("&") if part)
    response = session.send(method, target, parameters, body=data or None)
    click.echo(msgspec.json.encode(response).decode())
