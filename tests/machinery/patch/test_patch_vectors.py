"""Random patches, compared with the results of the Go libraries of Kubernetes v0.36 (data/vectors.json).

The inputs were generated at random from the fields of five kinds, with directives added; a third of the strategic ones
are results of a three-way diff. Cases in which the result of the Go libraries varies from run to run are excluded.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sampan.api.schema import schemas
from sampan.api.schema.tree import copy_value
from sampan.machinery import patch as p
from sampan.machinery.patch.errors import are_identical

GROUPS = {"Deployment": "apps", "PodDisruptionBudget": "policy"}
APPLY: dict[str, Callable[..., Any]] = {
    "strategic": p.apply_strategic_patch,
    "diff2": p.strategic_diff,
    "diff3": p.three_way_strategic_diff,
    "merge": p.apply_merge_patch,
    "mergediff": p.merge_diff,
    "merge3": p.three_way_merge_diff,
    "json": p.apply_json_patch,
}
VECTORS = json.loads((Path(__file__).parent / "data" / "vectors.json").read_bytes())


@pytest.mark.parametrize("operation", APPLY)
def test_same_results_as_the_go_libraries(operation: str) -> None:
    chosen = [vector for vector in VECTORS if vector["op"] == operation]
    assert len(chosen) >= 30
    for vector in chosen:
        check(vector)


def check(vector: dict[str, Any]) -> None:
    arguments = copy_value(vector["args"])
    all_arguments = (
        [*arguments, schema(vector["kind"])] if vector["op"] in ("strategic", "diff2", "diff3") else arguments
    )
    if "error" in vector:
        with pytest.raises(p.PatchError) as failure:
            APPLY[vector["op"]](*all_arguments)
        assert str(failure.value) == vector["error"]
    else:
        result = APPLY[vector["op"]](*all_arguments)
        assert are_identical(result, vector["result"]), (vector, result)
    assert are_identical(arguments, vector["args"]), "an argument was modified"


def schema(kind: str) -> Any:
    return schemas.definition(f"io.k8s.api.{GROUPS.get(kind, 'core')}.v1.{kind}")
