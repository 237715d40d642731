"""`sampan docs`: the documentation that is installed with Sampan."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import click

import sampan
from sampan.cli.failures import CliError

_INSTALLED = "share/doc/sampan/README.md"
_SUFFIX = ".md"


@click.command("docs")
@click.argument("page", required=False)
def command(page: str | None) -> None:
    """Show a page of the documentation; without PAGE list the pages and where they are."""
    directory = docs_directory()
    if page is None:
        click.echo("\n".join(_index(directory)))
        return
    path = _pages(directory).get(page.removesuffix(_SUFFIX))
    if path is None:
        raise CliError(f"there is no page {page!r}; `sampan docs` lists the pages")
    click.echo_via_pager(path.read_text(encoding="utf-8"))


def docs_directory() -> Path:
    """Return the documentation directory of the checkout, or else that of the installed package. Raise CliError if
    neither exists."""
    checkout = Path(sampan.__file__).resolve().parents[2] / "docs"
    for readme in [checkout / "README.md", *_list_installed_readmes()]:
        if readme.is_file():
            return readme.resolve().parent
    raise CliError("the documentation is not installed: this package was built without it")


def _list_installed_readmes() -> Iterable[Path]:
    try:
        files = distribution("sampan").files or []
    except PackageNotFoundError:
        return []
    return [Path(str(file.locate())) for file in files if file.as_posix().endswith(_INSTALLED)]


def _pages(directory: Path) -> dict[str, Path]:
    paths = sorted([*directory.glob("*.md"), *directory.glob("reference/*.md")])
    return {path.relative_to(directory).as_posix().removesuffix(_SUFFIX): path for path in paths}


def _index(directory: Path) -> list[str]:
    pages = {name: _title(path) for name, path in _pages(directory).items()}
    width = max(map(len, pages), default=0)
    rows = [f"{name:<{width}}  {title}" for name, title in pages.items()]
    examples = next((path for path in (directory / "examples", directory.parent / "examples") if path.is_dir()), None)
    ends = ["", f"pages     {directory}", *([f"examples  {examples}"] if examples is not None else [])]
    return [*rows, *ends, "", "`sampan docs PAGE` shows a page, for example `sampan docs tutorial`."]


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return next((line.removeprefix("# ").strip() for line in file if line.startswith("# ")), path.stem)
