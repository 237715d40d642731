"""Patches of JSON values: applying and computing JSON patch, JSON merge patch and strategic merge patch.

The API server applies them; `kubectl apply`, `edit` and `diff` compute them, from two versions of an object or from
three (last applied, desired, live). All functions are pure: they do not change their arguments, and their results share
unchanged parts with these, so copy before changing a result in place.

A strategic merge patch is directed by the `Schema` of the object's kind; fields without a schema are merged as JSON. A
patch that fails raises a PatchError, whose `as_api_error()` is kube-apiserver's response. The Kubernetes counterparts
are `apimachinery/pkg/util/strategicpatch` and `jsonmergepatch`.
"""

from sampan.machinery.patch.diff import json_diff, strategic_diff, three_way_strategic_diff
from sampan.machinery.patch.errors import MalformedPatch, PatchError, RefusedPatch, TestFailed, TooManyOperations
from sampan.machinery.patch.json_patch import Operation, apply_json_patch, check_json_patch, unknown_parts, with_texts
from sampan.machinery.patch.merge import apply_merge_patch, check_merge_patch, merge_diff, three_way_merge_diff
from sampan.machinery.patch.strategic import apply_strategic_patch, check_strategic_patch, join_strategic_patches

__all__ = [
    "MalformedPatch",
    "Operation",
    "PatchError",
    "RefusedPatch",
    "TestFailed",
    "TooManyOperations",
    "apply_json_patch",
    "apply_merge_patch",
    "apply_strategic_patch",
    "check_json_patch",
    "check_merge_patch",
    "check_strategic_patch",
    "join_strategic_patches",
    "json_diff",
    "merge_diff",
    "strategic_diff",
    "three_way_merge_diff",
    "three_way_strategic_diff",
    "unknown_parts",
    "with_texts",
]
