"""`sampan docs`: the pages that are installed."""

from pathlib import Path

from click.testing import CliRunner

from sampan.cli.docs import docs_directory
from sampan.cli.main import cli

REPOSITORY = Path(__file__).parents[2]


def test_docs_lists_every_page_and_the_pages_directory() -> None:
    done = CliRunner().invoke(cli, ["docs"])
    assert done.exit_code == 0
    listed = {line.split()[0] for line in done.stdout.splitlines() if line}
    assert {page.stem for page in (REPOSITORY / "docs").glob("*.md")} <= listed
    assert f"pages     {docs_directory()}" in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


def test_page_is_printed_with_or_without_md_suffix() -> None:
    for name in ("tutorial", "tutorial.md"):
        done = CliRunner().invoke(cli, ["docs", name])
        assert done.stdout.strip() == (docs_directory() / "tutorial.md").read_text().strip()


def test_unknown_page_is_reported() -> None:
    done = CliRunner().invoke(cli, ["docs", "../README-of-nobody"])
    assert (done.exit_code, done.stderr) == (
        1,
        "Error: no page is called or mentions '../README-of-nobody'; `sampan docs` lists the pages\n",
    )


def test_words_are_searched_in_all_pages() -> None:
    done = CliRunner().invoke(cli, ["docs", "HOLLOW", "annotations"])
    assert done.exit_code == 0
    pages = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert "nodes" in [line.split()[0] for line in pages]
    matching_lines = [line.lower() for line in done.stdout.splitlines() if line.startswith(" ")]
    assert matching_lines
    assert all("hollow" in line and "annotations" in line for line in matching_lines)


def test_comments_for_tests_are_left_out() -> None:
    assert "<!--" in (docs_directory() / "nodes.md").read_text()
    assert "<!--" not in CliRunner().invoke(cli, ["docs", "nodes"]).stdout
