"""`kubectl taint`, `cordon`, `uncordon` and `drain`."""

from tests.e2e.kubectl.comparison import Area
from tests.e2e.kubectl.comparison_files import FILES

AREA = Area(
    files=FILES,
    lines=[
        "taint node node-0 a=b:NoSchedule --dry-run=client",
        "taint node nope a=b:NoSchedule",
        "taint node",
        "taint",
        "taint node node-0 a=b",
        "taint node node-0 a=b:Foo",
        "taint node node-0 a-",
        "taint pod x a=b:NoSchedule",
        "taint node --all x=y:NoExecute-",
        "taint node node-0 a=b:NoSchedule a-",
        "cordon",
        "cordon nope",
        "cordon a -l b=c",
        "uncordon nope",
        "drain",
        "drain nope",
        "drain nope --pod-selector=a=(",
        "drain x --timeout=a",
    ],
)
