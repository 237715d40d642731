"""Run a cluster until it is signalled to stop."""

from __future__ import annotations

import asyncio
import errno
import faulthandler
import gc
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, NoReturn

from sampan.api.addresses import join_host_port
from sampan.apiserver.server_address import ListenError
from sampan.cli.local_cluster.start_progress import NoProgress, StartProgress
from sampan.cluster.assembly import Assembly
from sampan.cluster.cluster_config import ClusterConfig
from sampan.host.clock import RealClock
from sampan.host.linux.process_resources import raise_descriptor_limit
from sampan.machinery.cli_errors import CliError

log = logging.getLogger(__name__)


class PortInUseError(CliError):
    """Another program listens on the port of the API server."""


_LEVELS = {0: logging.WARNING, 1: logging.WARNING, 2: logging.INFO, 3: logging.INFO}


def set_up_logs(verbosity: int) -> None:
    logging.basicConfig(
        level=_LEVELS.get(verbosity, logging.DEBUG), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def serve(
    config: ClusterConfig, on_ready: Callable[[Assembly], Awaitable[None]], progress: StartProgress | None = None
) -> None:
    """Run the cluster until SIGINT or SIGTERM. `progress` shows the steps of the start."""
    run_loop(_serve(config, on_ready, progress or NoProgress()))


def run_loop(work: Coroutine[Any, Any, None]) -> None:
    with suppress(OSError):  # standard error may have no file descriptor
        faulthandler.enable()  # write the Python stack to the log if a C library crashes
    raise_descriptor_limit()
    try:
        import uvloop
    except ImportError:
        asyncio.run(_run(work))
    else:
        uvloop.run(_run(work))


async def _run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.get_running_loop().set_exception_handler(_report_callback_error)
    await work


def _report_callback_error(loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
    """Log an exception of an event loop callback.

    If data arrive for a TLS connection that is just being closed, uvloop reports a fatal error with a traceback. This
    is an ordinary end of a connection, so it is logged at debug level.
    """
    error = context.get("exception")
    if "SSL protocol" in context.get("message", "") and isinstance(error, RuntimeError | ConnectionError):
        log.debug("data arrived for a TLS connection that is closed: %s", error)
    else:
        loop.default_exception_handler(dict(context))


def exit_process() -> NoReturn:
    """Exit without freeing objects one by one, which would take minutes for a large cluster."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


async def _serve(
    config: ClusterConfig, on_ready: Callable[[Assembly], Awaitable[None]], progress: StartProgress
) -> None:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    on_signals(loop, task.cancel)
    assembly = Assembly(config=config, clock=RealClock(), on_step=progress.begin)
    try:
        await assembly.__aenter__()
    except asyncio.CancelledError:
        raise CliError("received a signal to stop before the cluster was ready") from None
    except ListenError as error:
        raise _listen_failure(error) from error
    progress.end()
    stop = asyncio.Event()
    on_signals(loop, stop.set)
    try:
        await on_ready(assembly)
        _freeze_objects()
        await stop.wait()
    finally:
        await assembly.__aexit__(None, None, None)


def on_signals(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
    for signum in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signum, call)


def _listen_failure(error: ListenError) -> CliError:
    kind = "secure" if error.is_secure else "insecure"
    port_flag, address_flag = f"--{kind}-port", "--bind-address" if error.is_secure else "--insecure-bind-address"
    address = join_host_port(error.host, error.port)
    if error.errno == errno.EADDRINUSE:
        return PortInUseError(f"{port_flag}: {address} is in use; give another port")
    if error.errno in (errno.EACCES, errno.EPERM):
        return CliError(f"{port_flag}: no permission to listen on {address}")
    if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
        return CliError(f"{address_flag}: {address} is not an address of this machine")
    return CliError(f"{port_flag}: cannot listen on {address}: {error.strerror}")


def _freeze_objects() -> None:
    """Exclude the objects created so far from garbage collection, as they live as long as the process."""
    gc.collect()
    gc.freeze()
