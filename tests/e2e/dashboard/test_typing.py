"""Type into the page key by key: nothing but the text changes, and unsaved text is left only after a question."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.e2e.dashboard.browser import Page
from tests.e2e.dashboard.conftest import Dashboard, OpenPage
from tests.e2e.dashboard.steps import EDITOR, deployment, editor_text
from tests.eventually import wait_until

EVERY_SHORTCUT = "# : ? / T j k x g e g p g d g o 1 2 3 4 5 6 7 8 9 s r b p d staging"
QUESTION = "document.querySelector('dialog[open]')?.innerText.includes('Leave without saving?')"
NO_DIALOG = "!document.querySelector('dialog[open]')"


@pytest.fixture(scope="module")
def namespace(dashboard: Dashboard) -> Iterator[str]:
    name = f"typing-{uuid.uuid4().hex[:6]}"
    dashboard.api("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    dashboard.api("POST", f"/apis/apps/v1/namespaces/{name}/deployments", deployment("web", 1))
    settings = {"metadata": {"name": "settings"}, "data": {"a": "one"}}
    dashboard.api("POST", f"/api/v1/namespaces/{name}/configmaps", settings)
    yield name
    dashboard.api("DELETE", f"/api/v1/namespaces/{name}")


def start_line_in_editor(page: Page) -> None:
    """Click into the YAML editor, and start a new line at the end of the text."""
    editor_text(page)
    x, y = page.evaluate(
        f"(box => [box.x + box.width / 2, box.y + 12])({EDITOR}.getBoundingClientRect())"  # a line in view
    )
    for kind in ("mousePressed", "mouseReleased"):
        page.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
    page.wait_for("document.querySelector('[data-editor]').shadowRoot.activeElement")
    page.press("Ctrl+End")
    page.type_text("\n")


def state_of(page: Page) -> object:
    """Return everything that a shortcut could change: the address, dialogs and the theme."""
    return page.evaluate(
        "[location.pathname, document.querySelectorAll('dialog').length, document.documentElement.dataset.theme ?? '']"
    )


@pytest.mark.parametrize(
    "path",
    ["c/sampan/apps~v1~deployments/%s/web/edit", "c/sampan/~v1~configmaps/%s/settings/edit", "c/sampan/create/yaml"],
)
def test_keys_in_the_yaml_editor_change_the_text_alone(open_page: OpenPage, namespace: str, path: str) -> None:
    page = open_page(path % namespace if "%s" in path else path)
    start_line_in_editor(page)
    before = state_of(page)
    page.type_text(EVERY_SHORTCUT)
    wait_until(lambda: EVERY_SHORTCUT in editor_text(page).replace("\xa0", " "), describe=lambda: editor_text(page))
    assert state_of(page) == before


def test_keys_in_the_search_of_the_editor_change_the_field_alone(open_page: OpenPage, namespace: str) -> None:
    page = open_page(f"c/sampan/~v1~configmaps/{namespace}/settings/edit")
    start_line_in_editor(page)
    before = state_of(page)
    page.press("Ctrl+f")
    field = "document.querySelector('[data-editor]').shadowRoot.querySelector('.cm-search input')"
    page.wait_for(field)
    page.type_text("g e 1 s : staging")
    assert page.evaluate(f"{field}.value") == "g e 1 s : staging"
    assert state_of(page) == before


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("c/sampan/~v1~pods", "#list-search"),
        ("c/sampan/create/Deployment", "form input[required]"),
        ("c/sampan/audit", "input[name=actor]"),
    ],
)
def test_keys_in_fields_change_the_text_alone(open_page: OpenPage, path: str, field: str) -> None:
    page = open_page(path)
    page.click(field)
    before = state_of(page)
    page.type_text("g e 1 s : ? staging")
    page.wait_for(f"document.querySelector('{field}').value === 'g e 1 s : ? staging'")
    assert state_of(page) == before


def test_keys_after_the_one_that_opens_the_palette_belong_to_it(open_page: OpenPage, namespace: str) -> None:
    """Keys of one burst arrive before the browser paints: those after Ctrl+K are neither lost nor typed elsewhere."""
    page = open_page(f"c/sampan/~v1~configmaps/{namespace}/settings/edit")
    start_line_in_editor(page)
    text = editor_text(page)
    page.evaluate("window.requestAnimationFrame = (paint) => void setTimeout(paint, 2000)")
    page.press("Ctrl+k")
    page.type_text("deploy")
    page.wait_for("document.querySelector('[role=combobox]')?.value === 'deploy'")
    page.wait_for("document.querySelector('[role=option]')?.innerText.startsWith('Deployment')")
    assert editor_text(page) == text


def test_a_sequence_that_begins_outside_of_a_field_does_not_end_inside(open_page: OpenPage) -> None:
    page = open_page("c/sampan/~v1~pods")
    page.wait_for("document.querySelector('#list-search')")
    page.press("g")
    page.click("#list-search")
    page.type_text("e")
    page.wait_for("document.querySelector('#list-search').value === 'e'")
    assert page.evaluate("location.pathname") == "/ui/c/sampan/~v1~pods"


# -- unsaved text ----------------------------------------------------------------------------------------------------


def type_unsaved(page: Page) -> None:
    start_line_in_editor(page)
    page.type_text("# unsaved")
    page.wait_for(f"{EDITOR}.innerText.includes('unsaved')")


def stay(page: Page) -> None:
    page.wait_for(QUESTION)
    page.click("dialog[open] footer button", "Stay")
    page.wait_for(NO_DIALOG)
    assert "# unsaved" in editor_text(page).replace("\xa0", " ")
    assert str(page.evaluate("location.pathname")).endswith("/settings/edit")


def test_unsaved_text_is_left_only_after_a_question(open_page: OpenPage, dashboard: Dashboard, namespace: str) -> None:
    page = open_page(f"c/sampan/~v1~configmaps/{namespace}/settings")
    page.click(".tabs a", "Edit")
    type_unsaved(page)
    page.click(".tabs a", "YAML")
    stay(page)
    page.click(".navigation a", "Pod")
    stay(page)
    page.evaluate("history.back()")
    stay(page)
    page.choose(".topbar select", namespace)
    stay(page)
    page.click("button[aria-label='Account and settings']")
    page.click("dialog button", "Log out")
    stay(page)
    page.press("Ctrl+k")
    page.wait_for("document.querySelector('[role=combobox]')")
    page.type_text("deploy")
    page.wait_for("document.querySelector('[role=option]')?.innerText.startsWith('Deployment')")
    page.press("Enter")
    stay(page)
    page.click(".navigation a", "Pod")
    page.wait_for(QUESTION)
    page.press("Escape")
    page.wait_for(NO_DIALOG)
    page.evaluate("history.back()")
    page.wait_for(QUESTION)
    page.click("dialog[open] footer button", "Discard and leave")
    page.wait_for(f"location.pathname === '/ui/c/sampan/~v1~configmaps/{namespace}/settings'")
    page.click(".navigation a", "Pod")
    page.wait_for("location.pathname.endsWith('~v1~pods')")
    assert "unsaved" not in str(dashboard.api("GET", f"/api/v1/namespaces/{namespace}/configmaps/settings"))


def test_the_browser_asks_before_a_tab_with_unsaved_text_is_closed(open_page: OpenPage, namespace: str) -> None:
    page = open_page(f"c/sampan/~v1~configmaps/{namespace}/settings/edit")
    type_unsaved(page)
    page.evaluate("void setTimeout(() => location.reload())")
    wait_until(lambda: page.events("Page.javascriptDialogOpening"))
    assert [event["type"] for event in page.events("Page.javascriptDialogOpening")] == ["beforeunload"]
    page.send("Page.handleJavaScriptDialog", accept=False)
    assert "# unsaved" in editor_text(page).replace("\xa0", " ")
    page.click("button:not(:disabled)", "Discard my changes")
    page.evaluate("window.isOld = true, void setTimeout(() => location.reload())")
    page.wait_for("window.isOld === undefined && document.querySelector('.topbar')")
    assert len(page.events("Page.javascriptDialogOpening")) == 1


def test_a_form_asks_until_it_has_been_sent(open_page: OpenPage, dashboard: Dashboard, namespace: str) -> None:
    page = open_page(f"c/sampan/create/ConfigMap?namespace={namespace}")
    page.click("form input[required]")
    page.type_text("typed")
    page.click(".navigation a", "Pod")
    page.wait_for(QUESTION)
    page.click("dialog[open] footer button", "Stay")
    page.wait_for(NO_DIALOG)
    page.wait_for_text("The server accepts this.")
    page.click("form button[type=submit]:not(:disabled)")
    page.wait_for("document.querySelector('dialog .diff-line.add')")
    page.click("dialog button:not(:disabled)", "Create")
    page.wait_for(f"location.pathname === '/ui/c/sampan/~v1~configmaps/{namespace}/typed'")
    assert dashboard.api("GET", f"/api/v1/namespaces/{namespace}/configmaps/typed")
