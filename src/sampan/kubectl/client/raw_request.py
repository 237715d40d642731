"""Requests to a path of the server with the content of a file: --raw of create, replace and delete
(`kubectl/pkg/rawhttp`)."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from sampan.kubectl.client.session import Session
from sampan.kubectl.errors import KubectlError
from sampan.kubectl.objects.manifests import FilenameFlags


def check_raw_flags(options: Mapping[str, Any], files: FilenameFlags, *, needs_file: bool = True) -> None:
    """Raise KubectlError for flags that --raw excludes."""
    if options.get("edit"):
        raise KubectlError("--raw and --edit are mutually exclusive")
    if options.get("interactive"):
        raise KubectlError("--interactive can not be used with --raw")
    if len(files.files) > 1 or (needs_file and not files.files):
        raise KubectlError("--raw can only use a single local file or stdin")
    if files.files and files.files[0].startswith(("http://", "https://")):
        raise KubectlError("--raw cannot read from a url")
    if files.is_recursive:
        raise KubectlError("--raw and --recursive are mutually exclusive")
    if needs_file and options.get("selector"):
        raise KubectlError("--raw and --selector (-l) are mutually exclusive")
    if options["output"]:
        raise KubectlError("--raw and --output are mutually exclusive")
    if not options["raw"].startswith("/"):
        raise KubectlError(f'--raw must be a valid URL path: parse "{options["raw"]}": invalid URI for request')


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
