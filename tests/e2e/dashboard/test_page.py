"""The page of the dashboard in a real browser: log-in, overview, lists, details, shortcuts, permissions, hostile text,
accessibility and performance."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.dashboard.browser import Page
from tests.e2e.dashboard.conftest import AXE, STATIC, Dashboard, OpenPage
from tests.eventually import wait_until

PODS = "c/sampan/~v1~pods"
HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>\'"&lt;javascript:alert(1)'
FIRST_LOAD_BYTES = 100 << 10
BUSY_LIST = Path(__file__).parent / "busy_list.js"


@pytest.fixture(scope="module")
def namespace(dashboard: Dashboard) -> Iterator[str]:
    """A namespace with a Deployment, its Service, and a pod that no node fits."""
    name = f"shop-{uuid.uuid4().hex[:6]}"
    dashboard.api("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "example/web:1"}]}}
    deployment = {
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
    }
    dashboard.api("POST", f"/apis/apps/v1/namespaces/{name}/deployments", deployment)
    service = {"metadata": {"name": "web"}, "spec": {"selector": labels, "ports": [{"port": 80}]}}
    dashboard.api("POST", f"/api/v1/namespaces/{name}/services", service)
    dashboard.api("POST", f"/api/v1/namespaces/{name}/pods", pod("too-big", cpu="1000"))
    yield name
    dashboard.api("DELETE", f"/api/v1/namespaces/{name}")


def pod(name: str, cpu: str = "1m", **metadata: dict[str, str]) -> dict[str, object]:
    container = {"name": "main", "image": "example/app:1", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name, **metadata}, "spec": {"containers": [container]}}


def row_names(page: Page) -> list[str]:
    return list(page.evaluate("[...document.querySelectorAll('.table-body .name')].map((name) => name.innerText)"))


def web_pod(dashboard: Dashboard, namespace: str) -> str:
    pods = dashboard.api("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    return next(str(item["metadata"]["name"]) for item in pods if item["metadata"]["name"].startswith("web-"))


def test_log_in_and_out(dashboard: Dashboard, admin_token: str) -> None:
    page = dashboard.browser.page()
    page.open(f"{dashboard.url}/ui/")
    page.fill("input[type=password]", "wrong")
    page.click("button[type=submit]")
    page.wait_for("document.querySelector('[role=alert]')")
    page.fill("input[type=password]", admin_token)
    page.click("button[type=submit]")
    page.wait_for("location.pathname === '/ui/c/sampan/overview'")
    assert page.evaluate("document.cookie") == "", "a script must not see the session's cookie"
    assert admin_token not in str(page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])"))
    page.click("button[aria-label='Account and settings']")
    page.wait_for_text("system:serviceaccount:default:dashboard-admin")
    page.click("dialog button", "Log out")
    page.wait_for_text("You are logged out.")
    page.close()


def test_overview_shows_problems_first(open_page: OpenPage, namespace: str) -> None:
    page = open_page("c/sampan/overview")
    page.wait_for_text(f"{namespace}/too-big")
    text = str(page.evaluate("document.querySelector('main').innerText"))
    assert text.index("Problems") < text.index("Workloads") < text.index("Nodes")
    assert "Unschedulable" in text
    assert page.evaluate("document.querySelectorAll('.problem .kubectl').length") >= 1
    page.wait_for("document.querySelectorAll('.node').length === 4")  # the whole cluster and its three nodes


def test_lists_follow_changes_without_jumps(open_page: OpenPage, dashboard: Dashboard, namespace: str) -> None:
    page = open_page(f"{PODS}?namespace={namespace}")
    page.wait_for("document.querySelectorAll('.table-body .name').length === 3")
    before = row_names(page)
    page.press("j")  # while a row is selected, the list does not move
    page.wait_for("document.querySelector('.table-row.cursor')")
    dashboard.api("POST", f"/api/v1/namespaces/{namespace}/pods", pod("a-first", labels={"tier": "new"}))
    page.wait_for("document.querySelector('.chip.new')?.innerText === '1 new'")
    assert row_names(page) == before
    page.click(".chip.new")
    page.wait_for("document.querySelectorAll('.table-body .name').length === 4")
    assert row_names(page)[0] == "a-first"
    dashboard.api("DELETE", f"/api/v1/namespaces/{namespace}/pods/a-first")
    page.wait_for("document.querySelector('.table-row.deleted, .table-row.terminating')")

    page.fill("#list-search", "big status:pending")
    page.wait_for("document.querySelectorAll('.table-body .name').length === 1")
    assert row_names(page) == ["too-big"]
    assert "q=big+status%3Apending" in page.path
    orders = []
    for order in ("Name", "-Name"):
        page.open(f"{dashboard.url}/ui/{PODS}?namespace={namespace}&label=app%3Dweb&sort={order}")
        page.wait_for("document.querySelectorAll('.table-body .name').length === 2")
        orders.append(row_names(page))
    ascending, descending = orders
    assert descending == ascending[::-1]


def test_ports_are_shown_with_the_command_and_link_that_reach_them(open_page: OpenPage, namespace: str) -> None:
    page = open_page(f"c/sampan/~v1~services/{namespace}/web/ports")
    page.wait_for_text("Forward port 80")
    assert "port-forward" in page.text()
    assert "8080:80" in page.text()
    links = page.evaluate("[...document.querySelectorAll('main a')].map((link) => [link.href, link.rel, link.target])")
    assert ["http://127.0.0.1:8080/", "noreferrer noopener", "_blank"] in links


def test_lists_of_custom_kinds_and_empty_lists(open_page: OpenPage, dashboard: Dashboard, namespace: str) -> None:
    create_boats(dashboard, namespace)
    page = open_page("c/sampan/harbor.example.com~v1~boats")
    page.wait_for_text("Zheng He")
    page.open(f"{dashboard.url}/ui/c/sampan/batch~v1~jobs?namespace={namespace}")
    page.wait_for_text("No Job here")
    page.click("a", "Look in all namespaces")
    page.wait_for("location.search === ''")


def create_boats(dashboard: Dashboard, namespace: str) -> None:
    column = {"name": "Captain", "type": "string", "jsonPath": ".spec.captain"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema, "additionalPrinterColumns": [column]}
    names = {"plural": "boats", "singular": "boat", "kind": "Boat"}
    definition = {
        "metadata": {"name": "boats.harbor.example.com"},
        "spec": {"group": "harbor.example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    dashboard.api("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    boat = {"apiVersion": "harbor.example.com/v1", "kind": "Boat", "metadata": {"name": "junk"}}
    path = f"/apis/harbor.example.com/v1/namespaces/{namespace}/boats"
    wait_for_kind(dashboard)
    dashboard.api("POST", path, boat | {"spec": {"captain": "Zheng He"}})


def test_scale_of_a_custom_kind_starts_at_its_replicas(
    open_page: OpenPage, dashboard: Dashboard, namespace: str
) -> None:
    """The replicas of a custom kind are where its definition says, not in spec.replicas."""
    group = f"fleet-{uuid.uuid4().hex[:6]}.example.com"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    scale = {"specReplicasPath": ".spec.crew", "statusReplicasPath": ".status.crew"}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema, "subresources": {"scale": scale}}
    names = {"plural": "tugs", "singular": "tug", "kind": "Tug"}
    definition = {
        "metadata": {"name": f"tugs.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
    dashboard.api("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    tug = {"apiVersion": f"{group}/v1", "kind": "Tug", "metadata": {"name": "a"}, "spec": {"crew": 5}}
    path = f"/apis/{group}/v1/namespaces/{namespace}/tugs"
    wait_for_kind(dashboard, f"tugs.{group}")
    dashboard.api("POST", path, tug)
    page = open_page(f"c/sampan/{group}~v1~tugs/{namespace}/a")
    page.click(".actions button:not(:disabled)", "Scale")
    page.wait_for("document.querySelector('dialog input[type=number]')?.value === '5'")
    page.click("dialog button[aria-label='One more']")
    page.wait_for("document.querySelector('dialog .diff-line.add')?.innerText.includes('6')")
    page.click("dialog footer button:not(:disabled)", "Scale")
    wait_until(lambda: dashboard.api("GET", f"{path}/a")["spec"]["crew"] == 6)
    page.wait_for("!document.querySelector('dialog')")


def wait_for_kind(dashboard: Dashboard, definition: str = "boats.harbor.example.com") -> None:
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition}"

    def is_established() -> bool:
        conditions = dashboard.api("GET", path).get("status", {}).get("conditions") or []
        return any(entry["type"] == "Established" and entry["status"] == "True" for entry in conditions)

    wait_until(is_established)


def test_detail_tabs_of_a_pod(open_page: OpenPage, dashboard: Dashboard, namespace: str) -> None:
    name = web_pod(dashboard, namespace)
    page = open_page(f"{PODS}/{namespace}/{name}")
    page.wait_for_text("Ready: True")
    page.wait_for_text("example/web:1")
    page.click(".tabs a", "YAML")
    page.wait_for_text("kind: Pod")
    assert "f:metadata" not in str(page.evaluate("document.querySelector('pre').innerText"))
    page.click(".tabs a", "Related")
    page.wait_for("document.querySelectorAll('.relations .tree:first-of-type li').length >= 3")
    assert re.search(r"Deployment\s+web.*ReplicaSet\s+web-.*Pod\s+web-", page.text(), re.DOTALL)
    page.wait_for_text("Service")
    page.click(".tabs a", "History")
    page.wait_for_text("Nothing has changed since you opened it")
    annotation = {"metadata": {"annotations": {"example.com/note": "changed"}}}
    dashboard.api("PATCH", f"/api/v1/namespaces/{namespace}/pods/{name}", annotation, patch=True)
    page.wait_for("document.querySelector('.changes ins')?.innerText.includes('changed')")
    page.click(".tabs a", "Events")
    page.wait_for_text("Scheduled")


def test_missing_object_is_reported(open_page: OpenPage, namespace: str) -> None:
    page = open_page(f"{PODS}/{namespace}/missing")
    page.wait_for_text("Pod missing does not exist")


def test_keyboard_shortcuts_and_command_palette(open_page: OpenPage, namespace: str) -> None:
    page = open_page("c/sampan/overview")
    page.wait_for("document.querySelector('.navigation section')")
    page.press("?")
    page.wait_for("document.querySelector('dialog[open] .shortcut-list')")
    page.press("Escape")
    page.wait_for("!document.querySelector('dialog[open]')")
    page.press("g", "d")
    page.wait_for("location.pathname.endsWith('apps~v1~deployments')")
    page.press(":")
    page.fill("[role=combobox]", "po")
    page.wait_for("document.querySelector('[role=option]')?.innerText.startsWith('Pod')")
    page.press("Enter")
    page.wait_for("location.pathname.endsWith('~v1~pods')")
    page.wait_for("document.querySelectorAll('.table-body .name').length >= 3")
    page.press("j")
    page.wait_for("document.querySelector('.table-row.cursor')")
    page.press("Enter")
    page.wait_for("document.querySelector('.detail h1')")


def test_theme_and_language(open_page: OpenPage) -> None:
    page = open_page("c/sampan/overview")
    page.click("button[aria-label='Account and settings']")
    page.choose("dialog .field:nth-of-type(1) select", "dark")
    page.wait_for("document.documentElement.dataset.theme === 'dark'")
    page.choose("dialog .field:nth-of-type(2) select", "zh")
    page.wait_for_text("退出登录")
    page.open(page.evaluate("location.href"))
    page.wait_for_text("概览")
    assert page.evaluate("document.documentElement.lang") == "zh-CN"
    background = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert sum(map(int, re.findall(r"\d+", str(background)))) < 150


def test_page_reconnects_after_a_lost_connection(dashboard: Dashboard, admin_token: str, namespace: str) -> None:
    page = dashboard.open(token=admin_token)
    script = """const Original = WebSocket; window.sockets = [];
    window.WebSocket = class extends Original { constructor(...words) { super(...words); sockets.push(this); } };"""
    page.send("Page.addScriptToEvaluateOnNewDocument", source=script)
    page.open(f"{dashboard.url}/ui/{PODS}?namespace={namespace}")
    page.wait_for("document.querySelectorAll('.table-body .name').length >= 3")
    page.evaluate("sockets[0].close()")
    page.wait_for_text("Connection lost")
    page.wait_for("sockets.length > 1 && !document.querySelector('.banner')")
    page.close()


def test_forbidden_list_is_shown_with_the_reason(dashboard: Dashboard, namespace: str) -> None:
    page = dashboard.open(f"{PODS}?namespace={namespace}", token=dashboard.token("nobody"))
    page.wait_for_text("Not allowed")
    page.wait_for_text('User "system:serviceaccount:default:nobody" cannot list resource "pods"')
    page.close()


def test_overview_marks_forbidden_sections(dashboard: Dashboard) -> None:
    page = dashboard.open("c/sampan/overview", token=dashboard.token("stranger"))
    page.wait_for("document.querySelectorAll('.overview .card').length >= 3")
    page.wait_for_text("Not allowed: this part needs the right")
    page.close()


def test_actions_are_disabled_for_a_read_only_user(dashboard: Dashboard, namespace: str) -> None:
    page = dashboard.open(f"c/sampan/apps~v1~deployments/{namespace}/web", token=dashboard.token("reader", "view"))
    page.wait_for_text("Available: True")
    page.wait_for("document.querySelectorAll('.actions button').length > 0")
    page.wait_for("[...document.querySelectorAll('.actions button')].every((button) => button.ariaDisabled === 'true')")
    reason = str(page.evaluate("document.querySelector('.actions .denied').title"))
    assert "system:serviceaccount:default:reader" in reason
    page.close()


def test_hostile_text_is_not_rendered_as_markup(open_page: OpenPage, dashboard: Dashboard, namespace: str) -> None:
    hostile = {
        "metadata": {
            "name": "hostile",
            "annotations": {"example.com/a": HOSTILE, "hollow.sampan.dev/message": HOSTILE},
        },
        "spec": {"containers": [{"name": "main", "image": "example/a", "env": [{"name": "A", "value": HOSTILE}]}]},
    }
    dashboard.api("POST", f"/api/v1/namespaces/{namespace}/pods", hostile)
    condition = {"type": "Hostile", "status": "True", "reason": "Because", "message": HOSTILE}
    status = {"status": {"phase": "Failed", "reason": HOSTILE, "message": HOSTILE, "conditions": [condition]}}
    path = f"/api/v1/namespaces/{namespace}/pods/hostile"
    dashboard.api("PATCH", f"{path}/status", status, patch=True)
    uid = dashboard.api("GET", path)["metadata"]["uid"]
    event = {
        "metadata": {"name": "hostile.1"},
        "involvedObject": {"kind": "Pod", "namespace": namespace, "name": "hostile", "uid": uid, "apiVersion": "v1"},
        "type": "Warning",
        "reason": HOSTILE,
        "message": HOSTILE,
        "source": {"component": HOSTILE},
        "lastTimestamp": "2099-01-01T00:00:00Z",
    }
    dashboard.api("POST", f"/api/v1/namespaces/{namespace}/events", event)
    config = {"metadata": {"name": "hostile"}, "data": {"text": HOSTILE}}
    dashboard.api("POST", f"/api/v1/namespaces/{namespace}/configmaps", config)

    page = open_page(f"{PODS}/{namespace}/hostile")
    for tab in ("", "/yaml", "/events", "/tree", "/history"):
        page.open(f"{dashboard.url}/ui/{PODS}/{namespace}/hostile{tab}")
        page.wait_for("document.querySelector('.detail .tabs')")
        if tab in ("", "/yaml", "/events"):
            page.wait_for_text("onerror")
        check_harmless(page)
    for path in (
        "c/sampan/overview",
        f"{PODS}?namespace={namespace}&q={HOSTILE}",
        f"c/sampan/~v1~events?namespace={namespace}",
        f"c/sampan/~v1~configmaps/{namespace}/hostile",
        f"c/sampan/{HOSTILE.replace('/', '')}",
    ):
        page.open(f"{dashboard.url}/ui/{path}")
        page.wait_for("document.querySelector('.card, .empty, .table-row, [role=alert]')")
        check_harmless(page)


def check_harmless(page: Page) -> None:
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.querySelectorAll('main img, main script, main iframe').length") == 0
    assert page.evaluate("[...document.querySelectorAll('a')].every((link) => link.protocol === location.protocol)")


def test_page_is_accessible_in_both_themes_at_every_width(
    open_page: OpenPage, dashboard: Dashboard, namespace: str, repository: Path
) -> None:
    """axe finds no violations, and the page is not wider than the screen."""
    axe = repository / AXE
    if not axe.exists():
        pytest.skip("axe-core is not installed: make dashboard")
    script = axe.read_text()
    name = web_pod(dashboard, namespace)
    views = {
        "c/sampan/overview": "document.querySelector('.node')",
        f"{PODS}?namespace={namespace}": "document.querySelector('.table-body .name')",
        **{
            f"{PODS}/{namespace}/{name}{tab}": "document.querySelector('.detail :is(.card, pre, .events li)')"
            for tab in ("", "/yaml", "/events", "/tree", "/history")
        },
    }
    page = open_page("c/sampan/overview")
    page.evaluate(script)
    problems = []
    for path, condition in views.items():
        page.prefer(color_scheme="light", reduced_motion="reduce")
        page.evaluate(f"history.pushState(null, '', '/ui/{path}'); dispatchEvent(new PopStateEvent('popstate'))")
        page.wait_for(condition)
        problems += [f"{path}: {problem}" for problem in accessibility_problems(page)]
        page.prefer(color_scheme="dark", reduced_motion="reduce")
        problems += [f"{path}, dark: {problem}" for problem in accessibility_problems(page, "color-contrast")]
        for width in (2560, 360, 1280):
            page.set_size(width, 800)
            page.wait_for(f"innerWidth === {width}")
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                problems.append(f"{path}: wider than {width} px")
    page.press("?")
    page.wait_for("document.querySelector('dialog[open]')")
    problems += [f"help: {problem}" for problem in accessibility_problems(page)]
    page.press("Escape")
    page.wait_for("!document.querySelector('dialog[open]')")
    page.press(":")
    page.wait_for("document.querySelector('[role=option]')")
    problems += [f"palette: {problem}" for problem in accessibility_problems(page)]
    assert problems == []


def accessibility_problems(page: Page, *rules: str) -> list[str]:
    """Return the violations that axe finds, of all its rules or only of these."""
    options: dict[str, object] = {"resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = list(rules)
    describe = (
        "(violation) => violation.nodes.map((node) => [violation.id, node.target, node.failureSummary].join(' '))"
    )
    script = f"axe.run(document, {json.dumps(options)}).then((result) => result.violations.flatMap({describe}))"
    return [str(problem) for problem in page.evaluate(script)]


def test_log_in_page_is_accessible(dashboard: Dashboard, repository: Path) -> None:
    axe = repository / AXE
    if not axe.exists():
        pytest.skip("axe-core is not installed: make dashboard")
    page = dashboard.browser.page()
    page.open(f"{dashboard.url}/ui/")
    page.wait_for("document.querySelector('input[type=password]')")
    page.evaluate(axe.read_text())
    assert accessibility_problems(page) == []
    page.close()


def test_first_load_is_small_and_same_origin(open_page: OpenPage, dashboard: Dashboard, repository: Path) -> None:
    page = open_page("c/sampan/overview")
    page.wait_for("document.querySelector('.overview h1')")
    urls = {event["request"]["url"] for event in page.events("Network.requestWillBeSent")}
    assert all(url.startswith((dashboard.url, "data:")) for url in urls if url != "about:blank")
    loaded = [str(url) for url in page.evaluate("performance.getEntriesByType('resource').map((entry) => entry.name)")]
    names = [url.split("/ui/")[1] for url in loaded if "/ui/assets/" in url]
    files = [repository / STATIC / name for name in ["index.html", *names]]
    sizes = {path.name: compressed_size(path) for path in files}
    assert any(name.endswith(".js") for name in sizes)
    assert sum(sizes.values()) <= FIRST_LOAD_BYTES, json.dumps(sizes, indent=1)


def compressed_size(path: Path) -> int:
    compressed = path.with_name(path.name + ".gz")
    return (compressed if compressed.exists() else path).stat().st_size


def test_list_of_10000_pods_renders_fewer_than_100_rows(open_page: OpenPage, dashboard: Dashboard) -> None:
    page = open_page("c/sampan/overview")
    page.send("Page.addScriptToEvaluateOnNewDocument", source=BUSY_LIST.read_text())
    page.open(f"{dashboard.url}/ui/{PODS}?namespace=big")
    page.wait_for("document.querySelector('h1 .count')?.innerText.replace(/\\D/g, '') === '10000'")
    assert page.evaluate("document.querySelectorAll('.table-body .table-row').length") < 100
    page.press("j")
    page.evaluate("document.querySelector('.table').scrollTop = 33 * 7000")
    page.wait_for("document.querySelector('.table-body').innerText.includes('load-07005')")
    assert page.evaluate("document.querySelectorAll('.table-body .table-row').length") < 100


def test_idle_page_warns_and_logs_out(dashboard: Dashboard, admin_token: str) -> None:
    """The page gets shorter idle times than the server has; the warning appears a minute before the end of the
    session."""
    page = dashboard.open(token=admin_token)
    shorten = """const send = window.fetch; window.fetch = async (url, options) => {
        const response = await send(url, options);
        if (!String(url).endsWith('/ui/api/session') || !response.ok) return response;
        const session = {...await response.json(), idleSeconds: %d, remainingSeconds: %d};
        return new Response(JSON.stringify(session));
    };"""
    script = page.send("Page.addScriptToEvaluateOnNewDocument", source=shorten % (61, 60))["identifier"]
    page.open(f"{dashboard.url}/ui/c/sampan/overview")
    page.wait_for_text("You will be logged out in")
    page.click(".banner button", "Stay logged in")
    page.wait_for("!document.querySelector('.banner')")
    page.send("Page.removeScriptToEvaluateOnNewDocument", identifier=script)
    page.send("Page.addScriptToEvaluateOnNewDocument", source=shorten % (2, 2))
    page.open(f"{dashboard.url}/ui/c/sampan/overview")
    page.wait_for_text("idle")
    page.wait_for("document.querySelector('input[type=password]')")
    assert page.evaluate("fetch('/ui/api/session').then((response) => response.status)") == 401
    page.close()
