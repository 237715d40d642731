"""ClusterTestCase: clusters for tests that use unittest."""

import unittest

from sampan.testing import ClusterTestCase
from sampan.testing.builders import config_map


class Prepared(ClusterTestCase):
    cluster_options = {"level": "api"}
    forks = True

    @classmethod
    def set_up_cluster(cls) -> None:
        cls.cluster.apply(config_map("prepared"))

    def test_a_fork(self) -> None:
        self.cluster.delete("configmap/prepared")
        assert self.cluster is not type(self).cluster

    def test_another_fork(self) -> None:
        self.cluster.delete("configmap/prepared")

    def test_a_namespace(self) -> None:
        assert self.namespace in self.kubeconfig.read_text()


class Failing(ClusterTestCase):
    cluster_options = {"level": "api"}

    def test_failure(self) -> None:
        self.cluster.apply(config_map("evidence"), namespace=self.namespace)
        self.fail("on purpose")

    def test_skip(self) -> None:
        self.skipTest("on purpose")


# pytest must not collect these classes: they run below, with unittest's own runner.
Prepared.__test__ = Failing.__test__ = False  # type: ignore[attr-defined]


def run(case: type[unittest.TestCase]) -> unittest.TestResult:
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    return result


def test_a_class_has_a_cluster_and_each_test_a_fork() -> None:
    result = run(Prepared)
    assert result.testsRun == 3
    assert result.failures == result.errors == []


def test_failure_message_contains_a_dump() -> None:
    result = run(Failing)
    ((_, text),) = result.failures
    assert "on purpose" in text
    assert "name: evidence" in text
    assert len(result.skipped) == 1
