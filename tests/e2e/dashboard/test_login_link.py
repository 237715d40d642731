"""The links that the command line prints log in to the page in a browser."""

import re
import subprocess
import sys
from pathlib import Path

from tests.cli.command import Sampan
from tests.e2e.dashboard.conftest import Dashboard
from tests.ports import free_port


def test_the_link_at_the_end_of_make_run_logs_in(dashboard: Dashboard, repository: Path, tmp_path: Path) -> None:
    sampan = Sampan(tmp_path)
    flags = ("--runtime", "hollow", "--nodes", "1", "--secure-port", str(free_port()))
    sampan("up", "--detach", *flags)
    try:
        shown = subprocess.run(
            [sys.executable, "-c", "import show; show.show_dashboard()"],
            cwd=repository / "tools",
            env=sampan.environment,
            capture_output=True,
            text=True,
            timeout=100,
        )
        link = shown.stdout.splitlines()[-1].strip()
        assert re.fullmatch(r"https://127\.0\.0\.1:\d+/ui/\S+", link), shown.stdout + shown.stderr
        page = dashboard.browser.page()
        page.open(link)
        page.wait_for("document.querySelector('.topbar')")
        page.close()
    finally:
        sampan("down", "--delete")
