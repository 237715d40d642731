"""Field descriptions with and without the package that contains them."""

from collections.abc import Iterator

import pytest

from sampan.api.resources.resource import GroupVersionKind
from sampan.apiserver import descriptions

POD = GroupVersionKind(group="", version="v1", kind="Pod")


@pytest.fixture
def without_package(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(descriptions, "_PACKAGE", "no_such_package")
    caches = (descriptions._texts, descriptions.describe_definition)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


@pytest.mark.usefixtures("without_package")
def test_description_without_the_package_names_the_extra_to_install() -> None:
    assert not descriptions.are_installed()
    assert "sampan[descriptions]" in descriptions.describe_definition("io.k8s.api.core.v1.Pod").description
    assert descriptions.describe_field(POD, "spec.nodeName") == ""


@pytest.mark.skipif(not descriptions.are_installed(), reason="kubernetes-validate is not installed")
def test_fields_are_described_if_the_package_is_installed() -> None:
    assert descriptions.describe_definition("io.k8s.api.core.v1.Pod").description.startswith("Pod is a collection")
    assert "node" in descriptions.describe_field(POD, "spec.nodeName").lower()
