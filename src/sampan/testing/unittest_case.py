"""A mix-in for tests with `unittest`: a cluster for each class, a namespace for each test."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from sampan.testing.cluster import Cluster


class ClusterTestCase(unittest.TestCase):
    """A base class for tests with `cluster`, `namespace` and `kubeconfig`: `class MyTest(ClusterTestCase):`.

    `cluster_options` are the arguments of the cluster of the class. With `forks` each test has a fork of that cluster,
    which starts with the objects that `set_up_cluster` created. A failed test shows a dump of its namespace.
    """

    cluster_options: ClassVar[dict[str, Any]] = {}
    forks: ClassVar[bool] = False
    cluster: Cluster
    namespace: str
    kubeconfig: Path
    """A kubeconfig file with the namespace of the test."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.cluster = cls.enterClassContext(Cluster(**cls.cluster_options))
        cls.set_up_cluster()

    @classmethod
    def set_up_cluster(cls) -> None:
        """Create the objects that all tests of the class need. Subclasses override this method."""

    def setUp(self) -> None:
        super().setUp()
        if self.forks:
            self.cluster = self.enterContext(type(self).cluster.fork())
        self.namespace = self.enterContext(self.cluster.namespace())
        self.kubeconfig = self.cluster.kubeconfig_for(self.namespace)

    def _callTestMethod(self, method: Callable[[], None]) -> None:
        """Add a dump of the cluster to the error of a test, before the test is torn down."""
        try:
            method()
        except unittest.SkipTest:
            raise
        except Exception as error:
            error.add_note(self.cluster.dump(self.namespace))
            raise
