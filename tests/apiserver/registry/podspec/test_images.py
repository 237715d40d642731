import pytest

from sampan.apiserver.registry.podspec.images import pull_policy

SHA = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.25", "IfNotPresent"),
        ("registry.example.com:5000/team/app", "Always"),
        ("registry.example.com:5000/team/app:v1", "IfNotPresent"),
        ("localhost/app", "Always"),
        (f"nginx@{SHA}", "IfNotPresent"),
        (f"nginx:latest@{SHA}", "Always"),
        ("nginx:latest@sha256:short", "IfNotPresent"),
        ("Nginx", "IfNotPresent"),
        ("", "IfNotPresent"),
        (" nginx", "IfNotPresent"),
        ("a" * 64, "IfNotPresent"),
        ("x" * 300, "IfNotPresent"),
        ("index.docker.io/nginx", "Always"),
    ],
)
def test_images_without_a_fixed_tag_are_always_pulled(image: str, policy: str) -> None:
    assert pull_policy(image) == policy
