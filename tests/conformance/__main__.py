"""`python -m tests.conformance`: builds the suite and its images, starts a cluster, runs the suite, reports."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click

from tests.conformance import images, programs, registry, report
from tests.conformance.cluster import RUNTIMES, STORES, ClusterError, ClusterOptions, running
from tests.conformance.run import Suite, parts, sampan_kubectl


@click.command(context_settings={"max_content_width": 100})
@click.option(
    "--focus", default="", metavar="REGEX", help="Run only tests whose name matches, for example sig-network."
)
@click.option("--skip", default="", metavar="REGEX", help="Leave out tests whose name matches.")
@click.option("--runtime", type=click.Choice(RUNTIMES), default="oci", show_default=True, help="Container runtime.")
@click.option("--store", type=click.Choice(STORES), default="sqlite", show_default=True, help="Store of the cluster.")
@click.option("--kubectl", type=click.Choice(["official", "sampan"]), default="official", show_default=True)
@click.option("--processes", default=4, show_default=True, help="Tests that run at the same time.")
@click.option("--output", type=click.Path(path_type=Path), help="Directory for logs and junit files. [a new one]")
def main(focus: str, skip: str, runtime: str, store: str, kubectl: str, processes: int, output: Path | None) -> None:
    """Run the official Kubernetes conformance suite against a Sampan cluster of two nodes."""
    options = ClusterOptions(runtime=runtime, store=store)
    output = output or Path(tempfile.mkdtemp(prefix="sampan-conformance-"))
    output.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    try:
        cache = _prepare()
        made = images.make_all(cache)
        with registry.serve(made, images.blobs_directory(cache)) as address, running(options, output) as kubeconfig:
            program = sampan_kubectl(output) if kubectl == "sampan" else cache / programs.KUBECTL.name
            suite = Suite(
                cache=cache,
                kubeconfig=kubeconfig,
                kubectl=program,
                registry=address,
                output=output,
                focus=focus,
                skip=skip,
            )
            files = [suite.run(part, _progress_line()) for part in parts(processes)]
    except (programs.BuildError, ClusterError) as error:
        raise click.ClickException(str(error)) from None
    _finish(report.read(files), options, output, (time.monotonic() - began) / 60, is_full=not (focus or skip))


def _prepare() -> Path:
    cache = programs.cache_directory()
    for program in programs.PROGRAMS:
        if not (cache / program.name).exists():
            click.echo(f"building {program.package}")
        programs.build(program, cache)
    return cache


def _progress_line() -> Callable[[str], None]:
    """On a terminal one line that changes, elsewhere a line for each change."""
    last = ""

    def show(text: str) -> None:
        nonlocal last
        if sys.stdout.isatty():
            click.echo(f"\r\x1b[K{text}", nl=False)
        elif text != last:
            click.echo(text)
        last = text

    return show


def _finish(results: list[report.Result], options: ClusterOptions, output: Path, minutes: float, is_full: bool) -> None:
    click.echo()
    for result in results:
        if result.failure:
            click.echo(f"FAILED {result.name}\n       {result.failure}")
    click.echo(f"{report.summary(results)} in {minutes:.0f} minutes; logs and junit files are in {output}")
    if is_full:
        click.echo(f"wrote {report.write(results, options, minutes)}")
    if not results or any(result.failure for result in results):
        sys.exit(1)


if __name__ == "__main__":
    main()
