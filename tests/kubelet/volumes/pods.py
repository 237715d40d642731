"""Pods for the decisions of volume plugins."""

from typing import Any

from sampan.api.codec import json
from sampan.api.types.core_v1 import Pod


def pod(*containers: dict[str, Any], **spec: Any) -> Pod:
    """Return a pod with containers c0, c1 and so on."""
    numbered = [{"name": f"c{index}", "image": "i", **container} for index, container in enumerate(containers)]
    return json.from_value({"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": numbered, **spec}}, Pod)
