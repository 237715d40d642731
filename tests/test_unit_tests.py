"""The rule for the tests of `make check`."""

import pytest

from tests.unit_tests import TESTS, is_unit_test


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("api/values/test_quantity.py", True),
        ("apiserver/admission/test_resource_quota.py", True),
        ("scheduler/test_scheduler.py", True),
        ("cli/test_up.py", False),
        ("e2e/test_services.py", False),
        ("growth/test_objects.py", False),
        ("dashboard/test_site.py", False),
        ("storage/test_etcd.py", False),
        ("network/pods/test_bridge.py", False),
        ("test_repository.py", False),
    ],
)
def test_unit_tests_start_no_programs(module: str, expected: bool) -> None:
    assert (TESTS / module).is_file()
    assert is_unit_test(TESTS / module) is expected


def test_most_tests_of_packages_are_unit_tests() -> None:
    modules = list(TESTS.rglob("test_*.py"))
    assert len([module for module in modules if is_unit_test(module)]) > len(modules) / 3


def test_shared_modules_and_fixtures_count() -> None:
    shared = TESTS / "storage/etcd_server.py"
    assert "subprocess" in shared.read_text()
    users = [path for path in TESTS.glob("storage/test_*.py") if "tests.storage.etcd_server import" in path.read_text()]
    assert users
    assert not any(is_unit_test(path) for path in users)
