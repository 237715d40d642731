"""`sampan envtest`: the programs that controller-runtime's envtest starts, on Sampan.

envtest is how Go projects test controllers: it starts the programs `etcd` and `kube-apiserver` of the directory in
`KUBEBUILDER_ASSETS`, and offers `kubectl`. Here each of them is a small script.

| module | purpose |
|---|---|
| assets | the directory with the three scripts |
| etcd | the program `etcd`: it only names the file in which the API server keeps its objects |
| kube_apiserver | the program `kube-apiserver`: `sampan kube-apiserver` on that file, with controllers on request |
"""

from __future__ import annotations

import click

from sampan.api.feature_gates import LEVEL, LEVELS
from sampan.api.kubernetes_version import MAJOR
from sampan.cli.command_classes import AliasGroup
from sampan.machinery.cli_errors import CliError


@click.group("envtest", cls=AliasGroup)
def command() -> None:
    """Run envtest suites of Go projects on Sampan.

    \b
    Example:
      export KUBEBUILDER_ASSETS=$(sampan envtest path)
      go test ./...

    \b
    Environment variables of the test run:
      SAMPAN_ENVTEST_CONTROLLERS  controllers to run beside the API server, as in
                                  --controllers: * for all. Unset: none.
    """


@command.command("path")
@click.option(
    "--kubernetes-version",
    type=click.Choice([f"{MAJOR}.{level}" for level in LEVELS]),
    default=f"{MAJOR}.{LEVEL}",
    show_default=True,
    help="Version of Kubernetes as which the API server behaves.",
)
def print_path(kubernetes_version: str) -> None:
    """Print a directory with etcd, kube-apiserver and kubectl.

    The directory is created in the cache directory of the user, and depends on the version of Sampan, on the Python
    that runs it, and on the version of Kubernetes.
    """
    from sampan.cli.envtest.assets import write_assets

    try:
        click.echo(write_assets(kubernetes_version))
    except OSError as error:
        raise CliError(f"cannot write the programs of envtest: {error.filename}: {error.strerror}") from None
