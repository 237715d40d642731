"""`sampan kubeconfig`: print the administrator's kubeconfig of a cluster, or how to use it."""

from __future__ import annotations

import shlex

import click

from sampan.cli.local_cluster.cluster_dir import running_cluster_options, select_cluster
from sampan.machinery.cli_errors import CliError


@click.command("kubeconfig")
@running_cluster_options
@click.option("--path", "prints_path", is_flag=True, help="Print the path of the file instead of its content.")
@click.option("--export", "prints_export", is_flag=True, help="Print a shell command that sets KUBECONFIG.")
def command(data_dir: str | None, cluster: str | None, prints_path: bool, prints_export: bool) -> None:
    """Print the kubeconfig of a cluster.

    \b
    Examples:
      eval $(sampan kubeconfig --export)
      sampan kubeconfig > cluster.kubeconfig
    """
    path = select_cluster(data_dir, cluster).kubeconfig
    try:
        content = path.read_text()
    except FileNotFoundError:
        raise CliError(f"there is no kubeconfig {path}; `sampan up` starts a cluster") from None
    except OSError as error:
        raise CliError(f"cannot read {path}: {error.strerror}") from None
    if prints_export:
        click.echo(f"export KUBECONFIG={shlex.quote(str(path))}")
    else:
        click.echo(path if prints_path else content, nl=prints_path)
