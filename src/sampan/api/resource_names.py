"""Classification of compute resource names. Pure."""

from sampan.api import names

HUGE_PAGES = "hugepages-"


def is_huge_pages(name: str) -> bool:
    return name.startswith(HUGE_PAGES)


def is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    if is_native(name) or name.startswith("requests."):
        return False
    return not names.qualified_name(f"requests.{name}")


def is_pod_level(name: str) -> bool:
    """Whether the resource is allowed in pod-level resources."""
    return name in ("cpu", "memory") or is_huge_pages(name)
