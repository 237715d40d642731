"""`python -m tests.conformance`: builds the suite and its images, starts a cluster, runs the suite, reports."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import click

from tests.conformance import images, programs, registry, report, results
from tests.conformance.cluster import RUNTIMES, STORES, ClusterError, ClusterOptions, running_cluster
from tests.conformance.programs import Release
from tests.conformance.run import Suite, parts, sampan_kubectl


@click.command(context_settings={"max_content_width": 100})
@click.option(
    "--focus", default="", metavar="REGEX", help="Run only tests whose name matches, for example sig-network."
)
@click.option("--skip", default="", metavar="REGEX", help="Leave out tests whose name matches.")
@click.option("--runtime", type=click.Choice(RUNTIMES), default="oci", show_default=True, help="Container runtime.")
@click.option("--store", type=click.Choice(STORES), default="sqlite", show_default=True, help="Store of the cluster.")
@click.option("--kubectl", type=click.Choice(["official", "sampan"]), default="official", show_default=True)
@click.option(
    "--kubernetes",
    type=click.Choice([release.minor for release in programs.find_releases()]),
    default=programs.LATEST.minor,
    show_default=True,
    help="Version of the suite, and the level of the cluster.",
)
@click.option("--processes", default=4, show_default=True, help="Tests that run at the same time.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="Directory for logs and results, which those of later runs are added to. [a new one]",
)
def main(
    focus: str, skip: str, runtime: str, store: str, kubectl: str, kubernetes: str, processes: int, output: Path | None
) -> None:
    """Run the official Kubernetes conformance suite against a Sampan cluster of two nodes, with containerd one."""
    release = Release(kubernetes)
    options = ClusterOptions(runtime=runtime, store=store, kubernetes=kubernetes)
    output = output or Path(tempfile.mkdtemp(prefix="sampan-conformance-"))
    directory = results.make_directory(output)
    began, commit = time.monotonic(), results.commit(report.ROOT)
    try:
        _build_programs(release)
        archives = images.make_all(release)
        with (
            registry.serve(archives, images.blobs_directory(release)) as address,
            running_cluster(options, directory) as kubeconfig,
        ):
            program = sampan_kubectl(directory) if kubectl == "sampan" else release.cache / programs.KUBECTL.name
            suite = Suite(
                cache=release.cache,
                kubeconfig=kubeconfig,
                kubectl=program,
                registry=address,
                output=directory,
                focus=focus,
                skip=skip,
            )
            files = [suite.run(part, _progress_line()) for part in parts(processes)]
    except (programs.BuildError, ClusterError) as error:
        raise click.ClickException(str(error)) from None
    ran, left_out = results.read(files)
    run = results.Run(
        configuration=results.Configuration(kubernetes=kubernetes, runtime=runtime, store=store, kubectl=kubectl),
        commit=commit,
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        minutes=(time.monotonic() - began) / 60,
        results=ran,
        left_out=left_out,
    )
    run.save(directory)
    _finish(run, output, directory)
    if absent := [str(file) for file in files if not file.exists()]:
        raise click.ClickException(f"the suite ended without its results in {', '.join(absent)}; e2e.log says why")


def _build_programs(release: Release) -> None:
    for program in programs.PROGRAMS:
        if not (release.cache / program.name).exists():
            click.echo(f"building {program.package} of {release.version}")
        programs.build(program, release)


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


def _finish(run: results.Run, output: Path, directory: Path) -> None:
    """Print the result. The page is written from all runs in the output directory if they cover the whole suite."""
    click.echo()
    for result in run.results:
        if result.failure:
            click.echo(f"FAILED {result.name}\n       {result.failure}")
    summary = results.summaries([run])[run.configuration]
    click.echo(f"{summary} in {run.minutes:.0f} minutes; logs and junit files are in {directory}")
    if results.summaries(results.load(output))[run.configuration].left_out:
        click.echo(f"python -m tests.conformance.report {output} writes docs/conformance.md from the results so far")
    else:
        click.echo(f"wrote {report.write(output)}")
    if not run.results or any(result.failure for result in run.results):
        sys.exit(1)


if __name__ == "__main__":
    main()
