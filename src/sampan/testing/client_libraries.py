"""Clients of other libraries for a kubeconfig file. Each library is imported only when its client is requested."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import kr8s
    import lightkube


class MissingLibrary(ImportError):
    """The library of a client is not installed."""


def _import(name: str, package: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0]:
            raise
        raise MissingLibrary(f"this client needs the package {package}: pip install {package}") from None


@contextmanager
def kubernetes_client(kubeconfig: Path) -> Iterator[Any]:
    """Yield an ApiClient of the package kubernetes, the official Python client."""
    config = _import("kubernetes.config", "kubernetes")
    with config.new_client_from_config(config_file=str(kubeconfig)) as client:
        yield client


def kubernetes_asyncio_client(kubeconfig: Path) -> Callable[[], Any]:
    """Return a function that creates an ApiClient of the package kubernetes_asyncio, for `async with client() as api:`.
    The client belongs to the event loop of the caller, which a fixture does not know."""
    config = _import("kubernetes_asyncio.config", "kubernetes_asyncio")
    library = _import("kubernetes_asyncio.client", "kubernetes_asyncio")
    configuration = library.Configuration()
    load = config.load_kube_config(config_file=str(kubeconfig), client_configuration=configuration)
    runner = asyncio.new_event_loop()  # a loop may already run in this thread, for example that of pytest-asyncio
    try:
        runner.run_until_complete(load)
    finally:
        runner.close()
    return lambda: library.ApiClient(configuration)


def kr8s_client(kubeconfig: Path, namespace: str) -> kr8s.Api:
    """Return the API object of the package kr8s."""
    library = _import("kr8s", "kr8s")
    client: kr8s.Api = library.api(kubeconfig=str(kubeconfig), namespace=namespace)
    return client


def lightkube_client(kubeconfig: Path, namespace: str) -> lightkube.Client:
    """Return a Client of the package lightkube."""
    library = _import("lightkube", "lightkube")
    config = library.KubeConfig.from_file(kubeconfig)
    client: lightkube.Client = library.Client(config=config, namespace=namespace)
    return client
