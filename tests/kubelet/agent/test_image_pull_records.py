"""Records of image pulls: pods that may use an image which was pulled with a secret."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sampan.kubelet.agent.image_pull_records import (
    POLICIES,
    ImagePullRecords,
    PullSecret,
    extend_record,
    may_use_image,
    must_verify,
)

IMAGE, REF = "registry.example/team/app:1", "sha256:abc"
OWN = PullSecret("u1", "a", "key", "hash-1")
SAME, RENEWED, OTHER = (
    PullSecret("u2", "b", "key", "hash-1"),
    PullSecret("u1", "a", "key", "hash-9"),
    PullSecret("u3", "c", "k", "x"),
)


def test_image_is_usable_with_an_equal_or_renewed_pull_secret() -> None:
    record = extend_record(None, REF, IMAGE, [OWN], 0)
    assert [may_use_image(record, IMAGE, [pull_secret]) for pull_secret in (OWN, SAME, RENEWED, OTHER)] == [
        True,
        True,
        True,
        False,
    ]
    assert not may_use_image(record, IMAGE, [])
    assert not may_use_image(record, "other.example/app:1", [OWN])
    assert may_use_image(record, "registry.example/team/app:2", [OWN])
    assert not may_use_image(None, IMAGE, [OWN])


def test_image_pulled_without_a_secret_is_usable_by_every_pod() -> None:
    record = extend_record(extend_record(None, REF, IMAGE, [OWN], 0), REF, IMAGE, [], 1)
    assert may_use_image(record, IMAGE, [])
    assert may_use_image(extend_record(record, REF, IMAGE, [OTHER], 2), IMAGE, [])


def test_record_accumulates_the_secrets_of_several_pulls() -> None:
    record = extend_record(extend_record(None, REF, IMAGE, [OWN], 0), REF, IMAGE, [OTHER], 1)
    assert may_use_image(record, IMAGE, [OWN])
    assert may_use_image(record, IMAGE, [OTHER])
    assert (record["kind"], record["imageRef"]) == ("ImagePulledRecord", REF)


@pytest.mark.parametrize(
    ("policy", "verifies_pulled", "verifies_preloaded", "verifies_allowlisted"),
    [
        (POLICIES[0], False, False, False),
        (POLICIES[1], True, False, False),
        (POLICIES[2], True, True, False),
        (POLICIES[3], True, True, True),
    ],
)
def test_verification_policies(
    policy: str, verifies_pulled: bool, verifies_preloaded: bool, verifies_allowlisted: bool
) -> None:
    listed = ["registry.example/base/*"]
    assert must_verify(policy, listed, IMAGE, is_pulled=True) is verifies_pulled
    assert must_verify(policy, listed, IMAGE, is_pulled=False) is verifies_preloaded
    assert must_verify(policy, listed, "registry.example/base/os:1", is_pulled=False) is verifies_allowlisted


def test_records_survive_restarts(tmp_path: Path) -> None:
    assert ImagePullRecords(tmp_path).read(REF) is None
    ImagePullRecords(tmp_path).add_pull(REF, IMAGE, [OWN], 0)
    assert may_use_image(ImagePullRecords(tmp_path).read(REF), IMAGE, [OWN])
    (file,) = (tmp_path / "image_manager" / "pulled").iterdir()
    file.write_text("{")
    assert ImagePullRecords(tmp_path).read(REF) == {}  # the image was pulled, but its secrets are unknown


def test_pulls_in_progress_survive_restarts(tmp_path: Path) -> None:
    pulled = ImagePullRecords(tmp_path)
    assert not pulled.is_being_pulled(IMAGE)
    pulled.start_pull(IMAGE)
    pulled.start_pull(IMAGE)
    pulled.end_pull(IMAGE)
    assert pulled.is_being_pulled(IMAGE)
    assert ImagePullRecords(tmp_path).is_being_pulled(IMAGE)
    pulled.end_pull(IMAGE)
    assert not ImagePullRecords(tmp_path).is_being_pulled(IMAGE)


def test_records_of_removed_images_are_pruned(tmp_path: Path) -> None:
    pulled = ImagePullRecords(tmp_path)
    for reference, at in (("kept", 100.0), ("gone", 100.0), ("fresh", 200.5)):
        pulled.add_pull(reference, IMAGE, [OWN], at)
    pulled.prune({"kept"}, 200.9)
    assert [pulled.read(name) is not None for name in ("kept", "gone", "fresh")] == [True, False, True]
    pulled.prune({"kept"}, 201.9)
    assert pulled.read("fresh") is None


def test_concurrent_pulls_of_one_image_keep_each_others_secrets(tmp_path: Path) -> None:
    records = ImagePullRecords(tmp_path)
    secrets = [PullSecret(f"u{number}", "a", "key", f"hash-{number}") for number in range(32)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda secret: records.add_pull(REF, IMAGE, [secret], 0), secrets))
    assert [secret for secret in secrets if not may_use_image(records.read(REF), IMAGE, [secret])] == []
    assert len(list((tmp_path / "image_manager/pulled").iterdir())) == 1
