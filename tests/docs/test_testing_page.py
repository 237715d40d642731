"""docs/testing.md is the reference of the test library; its examples are run with those of the other pages."""

import re
from pathlib import Path


def test_every_fixture_and_option_is_described(repository: Path) -> None:
    page = (repository / "docs/testing.md").read_text()
    sources = [repository / f"src/sampan/testing/{name}.py" for name in ("pytest_plugin", "short_fixtures")]
    plugin = "\n".join(source.read_text() for source in sources)
    names = re.findall(r"@pytest\.fixture.*\ndef (\w+)|\"(--[\w-]+)\"", plugin)
    assert len(names) >= 25
    assert [name for pair in names for name in pair if name and f"`{name}`" not in page] == []
