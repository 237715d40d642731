"""`sampan docs`: the documentation that is installed with Sampan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import click

import sampan
from sampan.machinery.cli_errors import CliError

_INSTALLED = "share/doc/sampan/README.md"
_SUFFIX = ".md"


_MAX_LINES_OF_PAGE = 3
_COMMENT_START, _COMMENT_END = "<!--", "-->"
_HINTS = (
    "`sampan docs PAGE` shows a page, for example `sampan docs tutorial`.",
    "`sampan docs WORD...` searches all pages for lines with these words.",
)


@click.command("docs")
@click.argument("words", nargs=-1, metavar="[PAGE | WORD...]")
def command(words: tuple[str, ...]) -> None:
    """Show a page of the documentation, or search all pages for lines with all of the words; without an argument list
    the pages and where they are."""
    directory = docs_directory()
    pages = _pages(directory)
    if not words:
        click.echo("\n".join(_index(directory)))
    elif len(words) == 1 and (path := pages.get(words[0].removesuffix(_SUFFIX))) is not None:
        click.echo_via_pager(_read(path))
    elif matches := list(_search(pages, words)):
        click.echo_via_pager("\n".join(matches))
    else:
        raise CliError(f"no page is called or mentions {' '.join(words)!r}; `sampan docs` lists the pages")


def _read(path: Path) -> str:
    """Return a page without its comments, which are for the tests that run it."""
    first, *parts = path.read_text(encoding="utf-8").split(_COMMENT_START)
    return first + "".join(part.partition(_COMMENT_END)[2].removeprefix("\n") for part in parts)


def _search(pages: Mapping[str, Path], words: Sequence[str]) -> Iterator[str]:
    """Yield the pages with lines that have all words, those with the most lines first, and their first lines."""
    lines = {name: _lines_with(_read(path), words) for name, path in pages.items()}
    for name in sorted((name for name in lines if lines[name]), key=lambda name: (-len(lines[name]), name)):
        yield f"{name}  {_title(pages[name])} ({len(lines[name])})"
        yield from (f"    {line}" for line in lines[name][:_MAX_LINES_OF_PAGE])


def _lines_with(text: str, words: Sequence[str]) -> list[str]:
    needles = [word.lower() for word in words]
    return [line.strip() for line in text.splitlines() if all(word in line.lower() for word in needles)]


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
    return [*rows, *ends, "", *_HINTS]


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return next((line.removeprefix("# ").strip() for line in file if line.startswith("# ")), path.stem)
