"""The recorded patch scenarios of a real server, patch by patch."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from sampan.api.schema import schemas
from sampan.machinery import patch as p

JSON, MERGE, STRATEGIC = (f"application/{kind}+json" for kind in ("json-patch", "merge-patch", "strategic-merge-patch"))
SCENARIOS = ["patch-json", "patch-json-bad", "patch-merge", "patch-strategic-directives", "patch-strategic-lists"]
SCHEMAS = {
    "podtemplates": schemas.definition("io.k8s.api.core.v1.PodTemplate"),
    "configmaps": schemas.definition("io.k8s.api.core.v1.ConfigMap"),
}
KINDS = {"podtemplates": "PodTemplate", "configmaps": "ConfigMap"}

REJECTED_FOR_OTHER_REASONS = {
    "a result of the wrong type",
    "a result that is not valid",
    "a result of another kind",
    "a missing object",
    "the name changed",
    "a list of the wrong type",
    "an item with a replace of itself",
    "the whole object deleted by a directive",
    "a volume with a second source is refused",
    "an empty list where one is required",
    "broken JSON as the patch",
    "a value of the wrong type",
    "a label that is a number",
    "another kind in the patch",
    "another name in the patch",
    "another namespace in the patch",
    "an old resource version in the patch",
    "another uid in the patch",
    "text that is not JSON",
    "no body",
}
"""Steps that the server rejects, but not because of the patch itself."""

SET_BY_SERVER = {
    "creationTimestamp", "dnsPolicy", "generation", "imagePullPolicy", "namespace", "protocol", "resources",
    "resourceVersion", "restartPolicy", "schedulerName", "securityContext", "terminationGracePeriodSeconds",
    "terminationMessagePath", "terminationMessagePolicy", "uid", "defaultMode",
}  # fmt: skip


def apply_patch(content_type: str, resource: str, state: dict[str, Any], body: Any) -> Any:
    if content_type == JSON:
        return p.apply_json_patch(state, p.check_json_patch(body))
    if content_type == MERGE:
        return p.apply_merge_patch(state, p.check_merge_patch(body))
    return p.apply_strategic_patch(state, p.check_strategic_patch(body), SCHEMAS[resource])


def assert_fits(ours: Any, real: Any, path: str = "") -> None:
    """Assert that the real object has all fields of ours, and otherwise only fields that the server sets."""
    if isinstance(ours, dict):
        assert isinstance(real, dict), path
        for key in ours.keys() - real.keys():
            assert ours[key] in (None, {}, [], "") or key == "x", f"{path}.{key} should not exist"
        for key in ours.keys() & real.keys():
            assert_fits(ours[key], real[key], f"{path}.{key}")
        assert {key for key in real.keys() - ours.keys() if real[key] != {}} <= SET_BY_SERVER, path
    elif isinstance(ours, list):
        assert isinstance(real, list), path
        assert len(ours) == len(real), path
        for i, (left, right) in enumerate(zip(ours, real, strict=True)):
            assert_fits(left, right, f"{path}[{i}]")
    elif path not in (".metadata.generation", ".metadata.resourceVersion"):
        assert ours == real or (ours is None and real == ""), path


Steps = list[tuple[dict[str, Any], dict[str, Any] | None]]


@pytest.fixture(params=SCENARIOS)
def steps(request: pytest.FixtureRequest, reference_dir: Path) -> Steps:
    scenario = yaml.safe_load((reference_dir / "recordings" / f"{request.param}.yaml").read_bytes())
    recorded = json.loads((reference_dir / "recordings" / f"{request.param}.json").read_bytes())
    responses = {response["step"]: response for response in recorded}
    return [(step, responses.get(i)) for i, step in enumerate(scenario["steps"])]


def test_recorded_patches_have_the_recorded_results(steps: Steps) -> None:
    state: dict[str, Any] = {}
    checked = 0
    for step, response in steps:
        method, url = step["request"].split()
        resource = url.partition("?")[0].split("/")[5]
        if method == "POST":
            state = response["body"] if response else {"kind": KINDS[resource], "apiVersion": "v1", **step["body"]}
        elif method == "PATCH" and is_json(step["body"]):
            apply = prepare_patch(step, resource, state)
            state = check(step, apply, response) or state
            checked += 1
    assert checked >= 18


def is_json(body: Any) -> bool:
    try:
        json.loads(body) if isinstance(body, str) else None
    except ValueError:
        return False
    return True


def prepare_patch(step: dict[str, Any], resource: str, state: dict[str, Any]) -> Callable[[], Any]:
    body = json.loads(step["body"]) if isinstance(step["body"], str) else step["body"]
    return lambda: apply_patch(step["headers"]["Content-Type"], resource, state, body)


def check(step: dict[str, Any], apply: Callable[[], Any], response: dict[str, Any] | None) -> dict[str, Any] | None:
    """Check a step, and return the object after it, or None if the object is unchanged."""
    if response is None:
        result: dict[str, Any] = apply()
        return result
    if response["status"] == 200:
        assert_fits(apply(), response["body"], "")
        return None if "dryRun" in step["request"] else response["body"]
    if step["name"] in REJECTED_FOR_OTHER_REASONS:
        apply()
    else:
        with pytest.raises(p.PatchError) as failure:
            apply()
        assert failure.value.as_api_error().status == response["body"], step["name"]
    return None
