"""`kubectl scale` and `kubectl autoscale`."""

from tests.e2e.kubectl.comparison import Area
from tests.e2e.kubectl.comparison_files import FILES

AREA = Area(
    files=FILES,
    lines=[
        "create -f dep.yaml",
        "scale deployment dep --replicas=1",
        "scale deployment/dep --replicas=1 --current-replicas=5",
        "scale deployment dep",
        "scale deployment dep --replicas=-1",
        "scale deployment dep --replicas=2 --dry-run=client",
        "scale deployment dep --replicas=2 --dry-run=server",
        "scale deployment nope --replicas=1",
        "scale --replicas=1",
        "scale deployment --all --replicas=2",
        "scale -f dep.yaml --replicas=2 -o name",
        "scale deployment dep --replicas=3 -o yaml --dry-run=server -l a=b",
        "scale deploy -l app=dep --replicas=1 --timeout=20s",
        "create cm a",
        "scale cm a --replicas=1",
        "autoscale deployment dep --max=5",
        "autoscale deployment dep --max=5",
        "autoscale deployment dep --max=5 --min=2 --cpu=80% --name=h2",
        "autoscale deployment dep --max=5 --cpu-percent=50 --name=h3",
        "autoscale deployment dep --max=5 --memory=100Mi --cpu=500m --name=h4 --dry-run=client -o yaml",
        "autoscale deployment dep",
        "autoscale deployment dep --max=0",
        "autoscale deployment dep --max=1 --min=3",
        "autoscale cm a --max=2",
        "autoscale deployment dep --max=3 --cpu=x",
        "autoscale deployment dep --max=3 --name=h5 --dry-run=server",
        "autoscale",
    ],
)
