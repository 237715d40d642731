"""Takes the screenshots of docs/dashboard-page.md: a cluster with hollow nodes and a few problems, the main pages at
three widths, in Chromium. Run it after `make dashboard`: .venv/bin/python tools/dashboard_screenshots.py
"""

from __future__ import annotations

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
        page.screenshot(IMAGES / f"{name}-{width}.webp", format="webp", quality=55)


def main() -> None:
    program = find_chromium()
    if program is None:
        raise SystemExit("there is no Chromium here: apt-get install chromium")
    IMAGES.mkdir(parents=True, exist_ok=True)
    with Cluster(nodes=5) as cluster, Browser(program) as browser:
        dashboard = Dashboard(cluster=cluster, browser=browser)
        fill(dashboard)
        time.sleep(10 * SETTLE_S)  # containers crash and back off
        pods = dashboard.api("GET", "/api/v1/namespaces/shop/pods")["items"]
        pod = next(item["metadata"]["name"] for item in pods if item["metadata"]["name"].startswith("web-"))
        page = dashboard.open("c/sampan/overview", token=dashboard.token("admin", "cluster-admin"))
        views = {
            "overview": ("c/sampan/overview", "light"),
            "pods": ("c/sampan/~v1~pods?namespace=shop", "dark"),
            "pod": (f"c/sampan/~v1~pods/shop/{pod}", "light"),
            "related": (f"c/sampan/~v1~pods/shop/{pod}/tree", "dark"),
        }
        for name, (path, theme) in views.items():
            page.set_size(1280, 800)
            page.open(f"{dashboard.url}/ui/{path}")
            time.sleep(SETTLE_S)
            shoot(page, name, theme)


if __name__ == "__main__":
    main()
