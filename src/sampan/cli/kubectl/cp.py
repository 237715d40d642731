"""`kubectl cp`: copy files to and from a container through tar at both ends."""

from __future__ import annotations

import asyncio
import io
import os
import posixpath
import tarfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from sampan.cli.failures import CliError
from sampan.cli.kubectl.chosen_pods import chosen_container, pod
from sampan.cli.kubectl.command import KubectlCommand
from sampan.cli.kubectl.container_terminal import finish
from sampan.cli.kubectl.factory import Factory
from sampan.cli.kubectl.session import Session
from sampan.cli.kubectl.sockets import open_socket
from sampan.machinery.multiplex import remote_command as client

_PIECE = 32 << 10


@dataclass(frozen=True, slots=True)
class CopyTarget:
    path: str
    pod: str = ""
    namespace: str = ""


@click.command("cp", cls=KubectlCommand)
@click.argument("source")
@click.argument("target")
@click.option(
    "-c", "--container", default="", metavar="C", help="Container name. Default: the first container of the pod."
)
@click.option(
    "--no-preserve", is_flag=True, help="Do not preserve owner and permissions of the copied files in the container."
)
@click.pass_obj
def command(factory: Factory, /, source: str, target: str, **options: Any) -> None:
    """Copy files to or from a container.

    The container must have a tar program.

    \b
    Examples:
      sampan kubectl cp FILE POD:PATH
      sampan kubectl cp NAMESPACE/POD:PATH DIRECTORY
    """
    origin, destination = place(source), place(target)
    if bool(origin.pod) == bool(destination.pod):
        raise CliError("one of src or dest must be a local file specification")
    remote = origin if origin.pod else destination
    session = factory.session
    session.namespace = remote.namespace or session.namespace
    pod_object = pod(session, remote.pod)
    container = chosen_container(pod_object, options["container"])
    if origin.pod:
        _fetch(session, pod_object, container, origin.path, Path(destination.path))
    else:
        _send(session, pod_object, container, Path(origin.path), destination.path, options["no_preserve"])


def place(text: str) -> CopyTarget:
    """Parse `path`, `pod:path` or `namespace/pod:path`. Text that starts with a dot or slash is a local path."""
    name, colon, path = text.partition(":")
    if not colon or name.startswith((".", "/")) or "\\" in name:
        return CopyTarget(text)
    parts = name.split("/")
    if len(parts) > 2 or not path:
        raise CliError("filespec must match the canonical format: [[namespace/]pod:]file/path")
    return CopyTarget(path, parts[-1], parts[0] if len(parts) == 2 else "")


def _send(
    session: Session, pod: Mapping[str, Any], container: str, source: Path, target: str, no_preserve: bool
) -> None:
    if not source.exists():
        raise CliError(f"{source} doesn't exist in local filesystem")
    if target.endswith("/") or _run(session, pod, container, ["test", "-d", target])[0] == 0:
        target = posixpath.join(target, source.name)
    directory, name = posixpath.split(target.rstrip("/"))
    command = ["tar", "--no-same-permissions", "--no-same-owner", "-xmf", "-"] if no_preserve else ["tar", "-xmf", "-"]
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(source, arcname=name)
    words = [*command, "-C", directory] if directory else command
    code, _, err = _run(session, pod, container, words, archive.getvalue())
    if code:
        raise CliError(err.decode("utf-8", "replace").strip() or f"tar exited with code {code}")


def _fetch(session: Session, pod: Mapping[str, Any], container: str, source: str, target: Path) -> None:
    source = source.rstrip("/") or "/"
    code, out, err = _run(session, pod, container, ["tar", "cf", "-", source])
    if code:
        raise CliError(err.decode("utf-8", "replace").strip() or f"tar exited with code {code}")
    if target.is_dir():
        target = target / posixpath.basename(source)
    prefix = posixpath.normpath(source).lstrip("/")
    with tarfile.open(fileobj=io.BytesIO(out)) as tar:
        for member in tar:
            _unpack(tar, member, prefix, target)


def _unpack(tar: tarfile.TarFile, member: tarfile.TarInfo, prefix: str, target: Path) -> None:
    """Extract an entry. Entries outside of the target and links are skipped, as in kubectl."""
    name = posixpath.normpath(member.name.lstrip("/"))
    rest = posixpath.relpath(name, prefix)
    path = Path(os.path.normpath(target / rest)) if rest != "." else target
    if rest.startswith("..") or not (path == target or path.is_relative_to(target)):
        click.echo(f"warning: file {name} is outside target destination, skipping", err=True)
        return
    if member.issym() or member.islnk():
        click.echo(f'warning: skipping symlink: "{path}" -> "{member.linkname}"', err=True)
    elif member.isdir():
        path.mkdir(parents=True, exist_ok=True)
    elif (content := tar.extractfile(member)) is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.read())
        path.chmod(member.mode & 0o777)


def _run(
    session: Session, pod: Mapping[str, Any], container: str, words: list[str], stdin: bytes | None = None
) -> tuple[int, bytes, bytes]:
    return asyncio.run(_exec(session, pod, container, words, stdin))


async def _exec(
    session: Session, pod: Mapping[str, Any], container: str, words: list[str], stdin: bytes | None
) -> tuple[int, bytes, bytes]:
    meta, outputs = pod["metadata"], {1: bytearray(), 2: bytearray()}
    query = [*(("command", word) for word in words), ("container", container), ("stdout", "true"), ("stderr", "true")]
    if stdin is not None:
        query.append(("stdin", "true"))
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/exec"
    socket = await open_socket(session, path, query, client.PROTOCOLS)

    def output(number: int, data: bytes) -> None:
        outputs[number] += data

    input_pieces = _pieces(stdin) if stdin is not None else None
    status = await client.run_client(socket, output, stdin=input_pieces)
    code = client.exit_code(status)
    if code is None:
        finish(status)
    return code or 0, bytes(outputs[1]), bytes(outputs[2])


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(data), _PIECE):
        yield data[at : at + _PIECE]
