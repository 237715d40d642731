"""The page of the dashboard in a real Chromium, beside a large cluster: how soon it shows something, and its frames."""

import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import Row
from benchmarks.page_frames import FrameReport, frame_report
from tests.e2e.dashboard.browser import Browser, Page, find_chromium

_STATIC = Path(__file__).parent.parent / "src/sampan/dashboard/static/index.html"
_LOADS = 5
_TRACED_S = 8.0
_OBSERVER = """new MutationObserver((_, observer) => {
  if (document.querySelector(%s)) { window.shownAfter ??= performance.now(); observer.disconnect(); }
}).observe(document, {childList: true, subtree: true});"""
_OVERVIEW, _FIRST_ROW = ".overview .card .node", ".table-body .name"


def is_available() -> bool:
    return find_chromium() is not None and _STATIC.exists()


class PageInBrowser:
    """Inside of `with` a Chromium runs, which is logged in to the dashboard."""

    def __init__(self, url: str, token: str) -> None:
        program = find_chromium()
        assert program is not None
        self._url, self._token, self._browser = url, token, Browser(program)

    def __enter__(self) -> "PageInBrowser":
        self._browser.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._browser.__exit__(*exc)

    def paints(self, note: str) -> Iterator[Row]:
        """Load the overview and the list of pods several times with an empty cache."""
        for name, path, selector in (
            ("overview", "c/sampan/overview", _OVERVIEW),
            ("list of pods", "c/sampan/~v1~pods", _FIRST_ROW),
        ):
            times = [self._paint(path, selector) for _ in range(_LOADS)]
            first, shown = (statistics.median(values) for values in zip(*times, strict=True))
            yield Row(f"first contentful paint, {name}", first, "ms", goal=500, note=note)
            yield Row(f"content shown, {name}", shown, "ms", goal=500 if name == "overview" else None, note=note)

    def _paint(self, path: str, selector: str) -> tuple[float, float]:
        page = self._logged_in()
        try:
            page.send("Network.setCacheDisabled", cacheDisabled=True)
            page.send("Page.addScriptToEvaluateOnNewDocument", source=_OBSERVER % json.dumps(selector))
            page.open(f"{self._url}/ui/{path}")
            shown = float(page.wait_for("window.shownAfter"))
            entry = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
            return float(page.wait_for(entry)), shown
        finally:
            page.close()

    def open_list(self, count: int) -> Page:
        """Open the list of all pods, and return the page when it has all of them."""
        page = self._logged_in()
        page.open(f"{self._url}/ui/c/sampan/~v1~pods")
        page.wait_for(f"document.querySelector('h1 .count')?.innerText.replace(/\\D/g, '') === '{count}'", 300)
        return page

    def frames(self, page: Page, *, is_scrolled: bool) -> FrameReport:
        """Trace the page for some seconds, at rest or while it scrolls."""
        if is_scrolled:
            page.evaluate(
                "(() => { const table = document.querySelector('.table'); const step = () => {"
                " table.scrollTop = (table.scrollTop + 40) % 300000; requestAnimationFrame(step); }; step(); })()"
            )
        with page.trace() as events:
            time.sleep(_TRACED_S)
        return frame_report(events)

    def _logged_in(self) -> Page:
        page = self._browser.page()
        page.open(f"{self._url}/ui/login")
        page.wait_for("document.readyState === 'complete'")
        body = json.dumps(json.dumps({"token": self._token}))
        headers = "{'Content-Type': 'application/json'}"
        request = f"fetch('/ui/api/login', {{method: 'POST', headers: {headers}, body: {body}}})"
        page.wait_for(f"{request}.then((response) => response.ok)")
        return page


def frame_rows(report: FrameReport, name: str, note: str) -> Iterator[Row]:
    waited = f"{report.drawn} drawn, {report.dropped_by_machine} dropped while the page did not compute; {note}"
    yield Row(f"frames dropped by the page, {name}", report.dropped_by_page, "count", goal=0, note=waited)
    yield Row(f"scripts and layout of a frame (99%), {name}", report.busy_ms_per_frame, "ms", goal=16.7, note=note)
    long = f"the longest {report.longest_task_ms:.0f} ms of CPU time"
    yield Row(f"tasks longer than 50 ms, {name}", report.long_tasks, "count", goal=0, note=long)
    yield Row(f"main thread of the page, {name}", report.busy_percent, "% of a core", note=note)
