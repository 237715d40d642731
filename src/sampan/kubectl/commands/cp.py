"""`kubectl cp`: copy files to and from a container through tar at both ends."""

from __future__ import annotations

import contextlib
import os
import posixpath
import tarfile
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from sampan.api.go_compat.gotext import quote
from sampan.kubectl.client.factory import Factory
from sampan.kubectl.client.session import Session
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import arguments, bool_flag, int_flag, string_flag
from sampan.kubectl.errors import KubectlError, ServerError, SilentExit
from sampan.kubectl.objects.pod_selection import check_container, default_container

if TYPE_CHECKING:
    from sampan.runtimes.images.tar_reader import TarEntry

_PIECE = 32 << 10
_STDERR = 2
_MAX_ERROR_BYTES = 1 << 20
_BAD_FORMAT = "filespec must match the canonical format: [[namespace/]pod:]file/path"


@dataclass(frozen=True, slots=True)
class FileSpec:
    """A local path, or a path in a container of a pod."""

    path: str
    pod: str = ""
    namespace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpOptions:
    words: tuple[str, ...] = arguments()
    container: str = string_flag(
        "-c", "--container", metavar="C", help="Container name. Default: the first container of the pod."
    )
    no_preserve: bool = bool_flag(
        "--no-preserve", help="Do not preserve owner and permissions of the copied files in the container."
    )
    retries: int = int_flag(
        "--retries", default=0, metavar="N", help="Attempts after a failed copy from a container; -1 is any."
    )


@KubectlCommand.define("cp", CpOptions)
def command(factory: Factory, options: CpOptions) -> None:
    """Copy files to or from a container.

    The container must have a tar program.
    """
    if len(options.words) != 2:
        raise KubectlError("source and destination are required")
    source, destination = file_spec(options.words[0]), file_spec(options.words[1])
    if source.pod and destination.pod:
        raise KubectlError("one of src or dest must be a local file specification")
    if not source.path or not destination.path:
        raise KubectlError("filepath can not be empty")
    if not source.pod and not destination.pod:
        raise KubectlError("one of src or dest must be a remote file specification")
    if source.pod:
        _fetch(_RemoteTar(factory, source, options), source, Path(destination.path), options.retries)
        return
    if not os.path.exists(source.path):
        raise KubectlError(f"{source.path} doesn't exist in local filesystem")
    _send(_RemoteTar(factory, destination, options), Path(source.path), destination.path, options.no_preserve)


def file_spec(text: str) -> FileSpec:
    """Parse `path`, `pod:path` or `namespace/pod:path`."""
    name, colon, path = text.partition(":")
    if not colon:
        return FileSpec(text)
    parts = name.split("/")
    if not name or len(parts) > 2:
        raise KubectlError(_BAD_FORMAT)
    return FileSpec(path, parts[-1], parts[0] if len(parts) == 2 else "")


class _RemoteTar:
    """Runs programs such as tar in the container that a copy reads or writes."""

    def __init__(self, factory: Factory, spec: FileSpec, options: CpOptions) -> None:
        self._session = factory.session
        namespace = spec.namespace or factory.namespace
        pod = factory.session.get(f"/api/v1/namespaces/{namespace}/pods/{spec.pod}")
        phase = (pod.get("status") or {}).get("phase")
        if phase in ("Succeeded", "Failed"):
            raise KubectlError(f"cannot exec into a container in a completed pod; current phase is {phase}")
        requested = options.container
        container = check_container(pod, requested) if requested else default_container(pod)
        self._path = f"/api/v1/namespaces/{namespace}/pods/{spec.pod}/exec"
        self._query = [("container", container), ("stdout", "true"), ("stderr", "true")]

    def run(
        self, words: list[str], *, stdin: IO[bytes] | None = None, stdout: IO[bytes] | None = None
    ) -> tuple[int, bytes]:
        """Run a program in the container, and write its standard output to `stdout`. Return its exit code and the
        beginning of its standard error."""
        import asyncio

        query = [*(("command", word) for word in words), *self._query]
        query += [("stdin", "true")] if stdin is not None else []
        return asyncio.run(_run(self._session, self._path, query, stdin, stdout))


async def _run(
    session: Session, path: str, query: list[tuple[str, str]], stdin: IO[bytes] | None, stdout: IO[bytes] | None
) -> tuple[int, bytes]:
    from sampan.kubectl.client.container_terminal import finish
    from sampan.kubectl.client.sockets import run_process
    from sampan.machinery.multiplex.remote_command import exit_code

    errors = bytearray()

    def output(number: int, data: bytes) -> None:
        if number == _STDERR:
            errors.extend(data[: _MAX_ERROR_BYTES - len(errors)])
        elif stdout is not None:
            stdout.write(data)

    status = await run_process(session, path, query, output, stdin=_pieces(stdin) if stdin is not None else None)
    code = exit_code(status)
    if code is None:
        finish(status)
    return code or 0, bytes(errors)


async def _pieces(file: IO[bytes]) -> AsyncIterator[bytes]:
    while piece := file.read(_PIECE):
        yield piece


def _check(code: int, errors: bytes) -> None:
    """Print the errors of the program in the container, and fail with its exit code."""
    if errors:
        click.echo(errors, err=True, nl=False)
    if code:
        click.echo(f"command terminated with exit code {code}", err=True)
        raise SilentExit(code)


def _send(remote: _RemoteTar, source: Path, target: str, no_preserve: bool) -> None:
    is_directory = False
    with contextlib.suppress(ServerError, KubectlError):
        is_directory = remote.run(["test", "-d", target])[0] == 0
    if is_directory:
        target = posixpath.join(target, Path(os.path.abspath(source)).name)
    directory, name = posixpath.split(posixpath.normpath(target))
    words = ["tar", "--no-same-permissions", "--no-same-owner", "-xmf", "-"] if no_preserve else ["tar", "-xmf", "-"]
    with tempfile.TemporaryFile() as archive:
        with tarfile.open(fileobj=archive, mode="w") as tar:
            tar.add(source, arcname=name)
        archive.seek(0)
        code, errors = remote.run([*words, "-C", directory] if directory else words, stdin=archive)
    _check(code, errors)


def _fetch(remote: _RemoteTar, source: FileSpec, target: Path, retries: int) -> None:
    with tempfile.TemporaryFile() as archive:
        _fetch_archive(remote, source.path, archive, retries)
        path = posixpath.normpath(source.path)
        if target.is_dir():
            target = target / posixpath.basename(path)
        unpack(archive, path, target, namespace=source.namespace, pod=source.pod)


def _fetch_archive(remote: _RemoteTar, path: str, archive: IO[bytes], retries: int) -> None:
    attempt = 0
    while True:
        try:
            archive.seek(0)
            archive.truncate()
            code, errors = remote.run(["tar", "cf", "-", path], stdout=archive)
            break
        except (ServerError, KubectlError, ConnectionError):
            if 0 <= retries <= attempt:
                raise
            attempt += 1
            click.echo(f"Resuming copy at 0 bytes, retry {attempt}/{retries}")
    if errors:
        click.echo(errors, nl=False)
    if code:
        click.echo(f"command terminated with exit code {code}", err=True)
        raise SilentExit(code)
    archive.seek(0)


def unpack(archive: IO[bytes], source: str, target: Path, *, namespace: str, pod: str) -> None:
    """Extract an archive of a container. Nothing is written outside of the target: entries that would leave it, links
    and special files are skipped. So are sparse files, because a small archive can contain sparse files of any size,
    and tar only writes them if it is asked to."""
    from sampan.runtimes.images import tar_reader
    from sampan.runtimes.images.manifests import BadImage

    reader, has_warned = tar_reader.TarReader(archive), False
    try:
        for entry in reader:
            if (path := _path_of(entry, source, target)) is None:
                outside = quote(f"{target}/{entry.name.lstrip('/')}")
                click.echo(f"warning: file {outside} is outside target destination, skipping", err=True)
            elif entry.kind == tar_reader.SYMBOLIC_LINK:
                hint = "" if has_warned else _link_hint(namespace, pod, source)
                click.echo(
                    f"warning: skipping symlink: {quote(str(path))} -> {quote(entry.link_name)}{hint}",
                    err=True,
                )
                has_warned = True
            elif entry.extents is not None:
                click.echo(f"warning: skipping sparse file: {quote(str(path))}", err=True)
            elif entry.kind == tar_reader.DIRECTORY:
                path.mkdir(parents=True, exist_ok=True)
            elif entry.kind == tar_reader.REGULAR:
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("wb") as file:
                    file.writelines(data for _, data in reader.pieces())
                path.chmod(entry.mode & 0o777)
    except BadImage as error:
        raise KubectlError(f"tar contents corrupted: {error}") from None


def _path_of(entry: TarEntry, source: str, target: Path) -> Path | None:
    """Return the local path of an entry; None if it is outside of the target."""
    prefix, name = _strip_path_shortcuts(source.lstrip("/")), entry.name.lstrip("/")
    if not name.startswith(prefix if prefix != "." else ""):
        raise KubectlError("tar contents corrupted")
    return _path_inside(target, name[len(prefix) :] if prefix != "." else name)


def _strip_path_shortcuts(path: str) -> str:
    """Remove `../` from the beginning of a path, as tar does."""
    while path.startswith("../"):
        path = path[3:]
    return "" if path == ".." else path


def _path_inside(target: Path, relative: str) -> Path | None:
    """Return the path of an entry below the target; None if it, or a link on the way, leads elsewhere."""
    path = Path(os.path.normpath(f"{target}/{relative}")) if relative.strip("/") else target
    if path != target and (path.is_symlink() or not path.is_relative_to(os.path.normpath(target))):
        return None
    root = target.resolve()
    parent = path.parent.resolve() if path != target else root
    return path if path == target or parent == root or parent.is_relative_to(root) else None


def _link_hint(namespace: str, pod: str, source: str) -> str:
    words = f"-n {quote(namespace)} {quote(pod)} -- tar cf - {quote(source)}"
    return f' (consider using "kubectl exec {words} | tar xf -")'
