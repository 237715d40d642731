"""`sampan dashboard`: open the dashboard of a cluster in the browser."""

from __future__ import annotations

import asyncio
import html
import os
import signal
import sys
import tempfile
import time
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from sampan.cli.local_cluster.cluster_dir import running_cluster_options, select_cluster
from sampan.machinery.cli_errors import CliError
from sampan.machinery.client import kubeconfig
from sampan.machinery.client.access import Access, AccessError

_OPEN_S = 5.0
"""How long the temporary file that redirects the browser to the dashboard is kept, in seconds."""


@click.command("dashboard")
@running_cluster_options
@click.option(
    "--kubeconfig",
    "file",
    metavar="F",
    help="Show the cluster of this kubeconfig instead, of any Kubernetes, on a loopback port until Ctrl-C.",
)
@click.option(
    "--context",
    "contexts",
    multiple=True,
    metavar="NAME",
    help="Context of the kubeconfig; repeat it for several clusters. Default: the current context.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    help="Serve the page on this loopback port over plain HTTP until Ctrl-C, also for a cluster of Sampan; 0: a free "
    "port. Browsers then show no warning about the certificate of the cluster.",
)
@click.option("--no-browser", is_flag=True, help="Print the address instead of opening a browser.")
def command(
    data_dir: str | None,
    cluster: str | None,
    file: str | None,
    contexts: tuple[str, ...],
    port: int | None,
    no_browser: bool,
) -> None:
    """Open the dashboard of a cluster in the browser.

    The address contains a code that logs in once, within a minute, with the credentials of the kubeconfig.

    \b
    Examples:
      sampan dashboard
      sampan dashboard --no-browser
      sampan dashboard --kubeconfig ~/.kube/config --context staging
    """
    if file is not None or contexts:
        paths = [Path(file)] if file is not None else kubeconfig.default_paths()
        _serve(_accesses(paths, contexts), port or 0, opens_browser=not no_browser)
        return
    directory = select_cluster(data_dir, cluster)
    if directory.read_note_if_running() is None:
        raise CliError(f"cluster {directory.name} is not running; `sampan up` starts it")
    accesses = _accesses([directory.kubeconfig], ())
    if port is not None:
        _serve(accesses, port, opens_browser=not no_browser)
        return
    access = next(iter(accesses.values()))
    url = _url_with_code(access)
    click.echo(f"dashboard: {url}")
    click.echo(f"The certificate is signed by the CA of the cluster: {directory.path / 'pki' / 'ca.crt'}")
    if not no_browser and has_browser():
        with _redirecting_file(url) as page:
            webbrowser.open(page.as_uri())
            time.sleep(_OPEN_S)


def has_browser() -> bool:
    """Whether this machine and session can open a graphical browser."""
    if sys.platform == "darwin":
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or os.environ.get("BROWSER"))


def _accesses(paths: list[Path], contexts: tuple[str, ...]) -> dict[str, Access]:
    try:
        config = kubeconfig.read(paths)
        names = contexts or (config.current,)
        if not names[0]:
            raise CliError(f"{config.source}: no current context is set; choose one with --context")
        return {_path_name(name): kubeconfig.load(paths, context=name) for name in names}
    except kubeconfig.KubeconfigError as error:
        raise CliError(f"--kubeconfig: {error}") from None


def _path_name(context: str) -> str:
    """Return the name of a kubeconfig context with all characters replaced that cannot be in one segment of a URL
    path."""
    return "".join(letter if letter.isalnum() or letter in "-_.@" else "-" for letter in context)


def _url_with_code(access: Access) -> str:
    from sampan.dashboard.loopback_server import login_url
    from sampan.dashboard.static_files import NOT_BUILT
    from sampan.kubectl.client.session import Session
    from sampan.kubectl.errors import ServerError

    session = Session(access, "default")
    try:
        value: Any = session.send("POST", "/ui/api/code", body={})
    except ServerError as error:
        if error.is_not_found or error.error.code == 404:
            raise CliError("the API server was started with --dashboard=false") from None
        raise
    finally:
        session.close()
    if not value.get("hasPage", True):
        raise CliError(NOT_BUILT)
    return login_url(access.server.rstrip("/"), str(value["code"]))


@contextmanager
def _redirecting_file(url: str) -> Iterator[Path]:
    """Write a private HTML file that redirects the browser to the URL, and remove it at the end of the block. The URL
    contains a log-in code and is not passed to the browser directly: every user of the machine can see the arguments of
    programs."""
    with tempfile.TemporaryDirectory(prefix="sampan-dashboard-") as directory:
        page = Path(directory) / "dashboard.html"
        page.write_text(f'<!doctype html><meta http-equiv="refresh" content="0;url={html.escape(url)}">')
        yield page


def _serve(accesses: dict[str, Access], port: int, *, opens_browser: bool) -> None:
    from sampan.dashboard.static_files import NOT_BUILT, StaticFiles

    if not StaticFiles().has_page():
        raise CliError(NOT_BUILT)
    try:
        asyncio.run(_run(accesses, port, opens_browser=opens_browser))
    except AccessError as error:
        raise CliError(str(error)) from None
    except OSError as error:
        raise CliError(f"--port: cannot listen on port {port}: {error.strerror}") from None


async def _run(accesses: dict[str, Access], port: int, *, opens_browser: bool) -> None:
    from sampan.dashboard.loopback_server import loopback_dashboard
    from sampan.host.clock import RealClock

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with loopback_dashboard(accesses, port=port, clock=RealClock()) as url:
        click.echo(f"dashboard of {', '.join(accesses)}: {url}")
        click.echo("Ctrl-C stops it")
        if opens_browser and has_browser():
            with _redirecting_file(url) as page:
                await asyncio.to_thread(webbrowser.open, page.as_uri())
                await stop.wait()
        else:
            await stop.wait()
