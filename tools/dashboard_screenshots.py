"""Takes the screenshots of docs/dashboard-page.md: a cluster with hollow nodes and a few problems, the main pages at
three widths, in Chromium. Run it after `make dashboard`: .venv/bin/python tools/dashboard_screenshots.py
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parent.parent
sys.path.insert(0, str(REPOSITORY))

from sampan.testing import Cluster  # noqa: E402
from tests.e2e.dashboard.browser import Browser, Page, find_chromium  # noqa: E402
from tests.e2e.dashboard.conftest import Dashboard  # noqa: E402

IMAGES = REPOSITORY / "docs/images/dashboard"
SIZES = {360: 740, 1280: 800, 2560: 1440}
SETTLE_S = 1.5
"""How long a page may load and draw before it is photographed."""
QUALITY = 45
REQUESTS = """mkdir -p site/images; echo '<h1>Shop</h1>' > site/index.html; date > site/built.txt
i=0; while true; do i=$((i+1)); echo "level=info msg=\\"GET /cart/$i\\" status=200"
[ $((i%4)) = 0 ] && echo "WARN slow response: GET /search took $((i*7%900+300)) ms"
[ $((i%9)) = 0 ] && echo "ERROR GET /recommend failed: connection refused"; sleep 0.4; done"""
"""A script of a container that logs requests and has a few files."""
SHOP = {"web": 5, "cart": 3, "catalog": 4, "search": 2}


def deployment(name: str, replicas: int, **annotations: str) -> dict[str, Any]:
    labels = {"app": name}
    requests = {"cpu": "500m", "memory": "1Gi"}
    container = {"name": name, "image": f"registry.example/{name}:1.4", "resources": {"requests": requests}}
    metadata = {
        "labels": labels,
        "annotations": {f"hollow.sampan.dev/{key}": text for key, text in annotations.items()},
    }
    template = {"metadata": metadata, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


def fill(dashboard: Dashboard) -> None:
    """Create a shop, of which one part has no image, one crashes, and one fits no node."""
    dashboard.api("POST", "/api/v1/namespaces", {"metadata": {"name": "shop"}})
    deployments = "/apis/apps/v1/namespaces/shop/deployments"
    for name, replicas in SHOP.items():
        dashboard.api("POST", deployments, deployment(name, replicas))
        service = {"metadata": {"name": name}, "spec": {"selector": {"app": name}, "ports": [{"port": 80}]}}
        dashboard.api("POST", "/api/v1/namespaces/shop/services", service)
    missing = deployment("recommend", 2, **{"pull-error": "manifest for registry.example/recommend:1.4 not found"})
    dashboard.api("POST", deployments, missing)
    dashboard.api("POST", deployments, deployment("report", 1, **{"run": "1s", "exit-code": "1"}))
    container = {"name": "model", "image": "registry.example/model:3", "resources": {"requests": {"cpu": "500"}}}
    dashboard.api(
        "POST", "/api/v1/namespaces/shop/pods", {"metadata": {"name": "model"}, "spec": {"containers": [container]}}
    )


def shoot(page: Page, name: str, theme: str) -> None:
    page.prefer(color_scheme=theme)
    for width, height in SIZES.items():
        page.set_size(width, height)
        time.sleep(SETTLE_S / 3)
        page.screenshot(IMAGES / f"{name}-{width}.webp", format="webp", quality=QUALITY)


def shoot_views(dashboard: Dashboard, page: Page, views: dict[str, tuple[str, str]]) -> None:
    """Photograph views, each named with its path and theme."""
    for name, (path, theme) in views.items():
        page.set_size(1280, 800)
        page.open(f"{dashboard.url}/ui/c/sampan/{path}")
        page.wait_for("document.querySelector('main h1')")
        time.sleep(SETTLE_S)
        shoot(page, name, theme)


def shoot_hollow_cluster(browser: Browser) -> None:
    with Cluster(nodes=5) as cluster:
        dashboard = Dashboard(cluster=cluster, browser=browser)
        fill(dashboard)
        time.sleep(10 * SETTLE_S)  # containers crash and back off
        pods = dashboard.api("GET", "/api/v1/namespaces/shop/pods")["items"]
        pod = next(item["metadata"]["name"] for item in pods if item["metadata"]["name"].startswith("web-"))
        page = dashboard.open("c/sampan/overview", token=dashboard.token("admin", "cluster-admin"))
        views = {
            "overview": ("overview", "light"),
            "pods": ("~v1~pods?namespace=shop", "dark"),
            "pod": (f"~v1~pods/shop/{pod}", "light"),
            "related": (f"~v1~pods/shop/{pod}/tree", "dark"),
            "birth": (f"~v1~pods/shop/{pod}/trace", "light"),
            "scheduling": (f"~v1~pods/shop/{pod}/schedule", "dark"),
            "map": ("map?namespace=shop", "light"),
            "timeline": ("timeline", "dark"),
            "create": ("create/Deployment?namespace=shop", "light"),
            "edit": ("apps~v1~deployments/shop/web/edit", "dark"),
            "tour": ("tour", "light"),
        }
        shoot_views(dashboard, page, views)
        page.set_size(1280, 800)
        page.open(f"{dashboard.url}/ui/c/sampan/apps~v1~deployments/shop/web")
        page.click(".actions button:not(:disabled)", "Scale")
        page.fill("dialog input[type=number]", "8")
        page.wait_for("document.querySelector('dialog .diff-line.add')?.innerText.includes('replicas: 8')")
        shoot(page, "scale", "light")
        page.evaluate("localStorage.setItem('sampan.language', 'zh')")
        shoot_views(dashboard, page, {"overview-zh": ("overview", "dark"), "pod-zh": (f"~v1~pods/shop/{pod}", "light")})


def shoot_real_cluster(browser: Browser) -> None:
    """Photograph what needs real containers."""
    with Cluster(nodes=1, runtime="process") as cluster:
        dashboard = Dashboard(cluster=cluster, browser=browser)
        while not dashboard.api("GET", "/api/v1/namespaces/default/serviceaccounts")["items"]:
            time.sleep(SETTLE_S)
        web = deployment("web", 3)
        (container,) = web["spec"]["template"]["spec"]["containers"]
        container |= {"image": "sampan.local/host", "command": ["sh", "-c", REQUESTS], "resources": {}}
        dashboard.api("POST", "/apis/apps/v1/namespaces/default/deployments", web)
        time.sleep(10 * SETTLE_S)
        pods = dashboard.api("GET", "/api/v1/namespaces/default/pods")["items"]
        page = dashboard.open("c/sampan/overview", token=dashboard.token("admin", "cluster-admin"))
        path = f"~v1~pods/default/{pods[0]['metadata']['name']}"
        views = {
            "logs": ("apps~v1~deployments/default/web/logs", "dark"),
            "files": (f"{path}/files?path=site", "light"),
        }
        shoot_views(dashboard, page, views)
        page.set_size(1280, 800)
        page.open(f"{dashboard.url}/ui/c/sampan/{path}/terminal")
        page.click("button[type=submit]:not(:disabled)", "Connect")
        page.wait_for_text("connected")
        page.wait_for("document.activeElement?.classList.contains('xterm-helper-textarea')")
        page.press(*"ls", "Space", *"-l", "Space", *"site", "Enter")
        time.sleep(SETTLE_S)
        shoot(page, "terminal", "dark")


def main() -> None:
    program = find_chromium()
    if program is None:
        raise SystemExit("there is no Chromium here: apt-get install chromium")
    if not subprocess.run(["fc-list", ":lang=zh"], capture_output=True, check=False).stdout:
        raise SystemExit("there is no Chinese font here: apt-get install fonts-wqy-zenhei")
    IMAGES.mkdir(parents=True, exist_ok=True)
    with Browser(program) as browser:
        shoot_hollow_cluster(browser)
        shoot_real_cluster(browser)


if __name__ == "__main__":
    main()
