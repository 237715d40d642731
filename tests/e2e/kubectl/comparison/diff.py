"""`kubectl diff` and its exit codes."""

from tests.e2e.kubectl.comparison import Area, Line
from tests.e2e.kubectl.comparison_files import FILES

AREA = Area(
    files=FILES,
    lines=[
        "diff -f cm.yaml",
        "diff -f secret.yaml",
        "diff -f cm.yaml -f dep.yaml -f svc.yaml --server-side --concurrency=2",
        "apply -f cm.yaml",
        "diff -f cm.yaml",
        "diff -f cm2.yaml",
        "diff -f cm2.yaml --server-side",
        "diff -f nope",
        "diff",
        "diff foo",
        "diff -f cm.yaml --foo",
        "apply -f secret.yaml",
        "diff -f secret2.yaml",
        "diff -f secret2.yaml --show-secrets",
        Line("diff -f cm2.yaml", environment={"KUBECTL_EXTERNAL_DIFF": "diff -N"}),
        Line("diff -f cm2.yaml", environment={"KUBECTL_EXTERNAL_DIFF": "nodiffhere"}),
        "diff -f podbad.yaml",
    ],
)
