"""`sampan doctor`."""

import json

from tests.cli.command import Sampan


def test_the_table_and_the_json_agree(sampan: Sampan) -> None:
    table, done = sampan.run("doctor"), sampan.run("doctor", "-o", "json")
    summary = json.loads(done.stdout)
    assert done.returncode == table.returncode == (0 if summary["ok"] else 1)
    assert table.stdout.startswith("CHECK")
    for check in summary["checks"]:
        assert any(line.startswith(check["name"]) for line in table.stdout.splitlines())
