"""`sampan image`: manage the images of a cluster."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from sampan.cli.command_classes import AliasGroup
from sampan.cli.local_cluster.cluster_dir import ClusterDir, running_cluster_options, select_cluster
from sampan.machinery.cli_errors import CliError
from sampan.runtimes.images import BadReference, ImageStore, ImageUnknown, parse_reference
from sampan.runtimes.images.manifests import BadImage

_HEAD = ("IMAGE", "TAG", "IMAGE ID", "SIZE")
_UNITS = ("B", "kB", "MB", "GB", "TB")


class _ClusterImageStore(ImageStore):
    """The image store of a cluster, which may be running."""

    def __init__(self, directory: ClusterDir) -> None:
        super().__init__(directory.images)
        self._where = directory

    def prune_unless_running(self) -> None:
        """Delete unused content unless the cluster is running: only its kubelet knows which images containers use."""
        lock = self._where.lock()
        if lock.acquire():
            self.prune()
            lock.release()


def _image_command(name: str) -> Callable[[Callable[..., None]], click.Command]:
    """Return a decorator for a subcommand whose first parameter is the image store of the selected cluster."""

    def decorate(function: Callable[..., None]) -> click.Command:
        @functools.wraps(function)
        def run(data_dir: str | None, cluster: str | None, **options: Any) -> None:
            function(_ClusterImageStore(select_cluster(data_dir, cluster)), **options)

        return command.command(name)(running_cluster_options(run))

    return decorate


@click.group("image", cls=AliasGroup)
def command() -> None:
    """Manage the images of a cluster: load, pull, list, remove and save them."""


@_image_command("load")
@click.argument("paths", nargs=-1, required=True, metavar="FILE...")
def load_command(store: ImageStore, paths: tuple[str, ...]) -> None:
    """Load images from archives.

    The archives are those of `docker save` or in the OCI image layout.
    """
    from sampan.runtimes.images.archives import load

    for path in paths:
        try:
            images = load(store, Path(path), now=time.time())
        except (BadImage, BadReference) as error:
            raise CliError(str(error)) from None
        for image in images:
            click.echo(f"loaded {', '.join(image.names) or image.id}")


@_image_command("pull")
@click.argument("name")
@click.option("--plain-http", is_flag=True, help="Connect to the registry over HTTP instead of HTTPS.")
@click.option(
    "--mirror",
    "mirrors",
    multiple=True,
    metavar="URL",
    help="Registry mirror that is tried first; can be given several times.",
)
@click.option("--auth-file", metavar="F", help="Docker config.json file with registry credentials.")
def pull_command(
    store: ImageStore, name: str, plain_http: bool, mirrors: tuple[str, ...], auth_file: str | None
) -> None:
    """Pull an image from its registry."""
    import asyncio

    from sampan.host.clock import RealClock
    from sampan.runtimes.images.credentials import Keyring, read_docker_config
    from sampan.runtimes.images.pull import ImagePuller, PullConfig, PullFailed

    try:
        reference = parse_reference(name)
    except BadReference as error:
        raise CliError(str(error)) from None
    try:
        keyring = read_docker_config(Path(auth_file).read_bytes()) if auth_file else Keyring()
    except ValueError as error:
        raise CliError(f"--auth-file: {auth_file}: {error}") from None
    except OSError as error:
        raise CliError(f"--auth-file: cannot read {auth_file}: {error.strerror}") from None
    config = PullConfig(
        mirrors={reference.registry: mirrors} if mirrors else {},
        plain_http=frozenset([reference.registry]) if plain_http else frozenset(),
    )

    async def pull() -> str:
        async with ImagePuller(store=store, clock=RealClock(), config=config) as puller:
            return (await puller.pull(reference, keyring)).reference

    try:
        click.echo(asyncio.run(pull()))
    except PullFailed as error:
        raise CliError(f"{name}: {error}") from None


@_image_command("ls")
@click.option("-q", "--quiet", is_flag=True, help="Print image names only.")
def list_command(store: ImageStore, quiet: bool) -> None:
    """List the images of the cluster."""
    from sampan.runtimes.images import host

    rows = [(host.NAME, "latest", "(this machine)", "-")]
    for image in sorted(store.list(), key=lambda item: (*item.names, item.id)):
        short = image.id.removeprefix("sha256:")[:12]
        for name in image.names or ("<none>",):
            tagged = parse_reference(name) if name != "<none>" else None
            repository, tag = (tagged.name, tagged.tag) if tagged is not None else ("<none>", "<none>")
            rows.append((repository, tag, short, _size(image.size)))
    if quiet:
        for row in rows:
            click.echo(f"{row[0]}:{row[1]}" if row[0] != "<none>" else row[2])
        return
    widths = [max(len(row[column]) for row in (_HEAD, *rows)) for column in range(len(_HEAD))]
    for row in (_HEAD, *rows):
        click.echo("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


@_image_command("rm")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def remove_command(store: _ClusterImageStore, names: tuple[str, ...]) -> None:
    """Remove images by name or ID.

    While the cluster is running, the disk space is freed later, by the image garbage collection of the kubelet.
    """
    for name in names:
        try:
            store.remove(name)
        except ImageUnknown as error:
            raise CliError(str(error)) from None
        click.echo(f"removed {name}")
    store.prune_unless_running()


@_image_command("save")
@click.argument("name")
@click.option("-o", "--output", required=True, metavar="F", help="Path of the archive to write.")
def save_command(store: ImageStore, name: str, output: str) -> None:
    """Save an image to an archive in the OCI image layout."""
    from sampan.runtimes.images.archives import save

    try:
        save(store, store.get(name), Path(output))
    except ImageUnknown as error:
        raise CliError(str(error)) from None
    except OSError as error:
        raise CliError(f"--output: cannot write {output}: {error.strerror}") from None


def _size(count: float) -> str:
    for unit in _UNITS[:-1]:
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} {_UNITS[-1]}"
