"""`kubectl expose` for workloads, pods and services."""

from tests.e2e.kubectl.comparison import Area
from tests.e2e.kubectl.comparison_files import FILES

AREA = Area(
    files=FILES,
    lines=[
        "create -f dep.yaml",
        "create -f pod.yaml",
        "create cm a",
        "expose deployment dep",
        "expose deployment dep",
        "expose deployment dep --name=b --port=81 --target-port=8080",
        "expose pod pod --port=80 --name=p",
        "expose pod pod",
        "expose cm a",
        "expose deployment dep --name=c --type=NodePort -o yaml",
        "expose deployment dep --name=d --dry-run=client -o yaml -l x=y",
        "expose deployment dep --name=e --dry-run=server",
        "expose svc dep --name=f",
        "expose deployment nope",
        "expose",
        "expose deployment dep --name=g --cluster-ip=None",
        "expose deployment dep --name=h --session-affinity=foo",
        "expose deployment dep --name=i --selector=a=b --protocol=UDP -o yaml --dry-run=client",
        ('expose deployment dep --name=j --overrides \'{"spec":{"type":"NodePort"}}\' --dry-run=client -o yaml'),
        "expose deployment dep --port=x --name=k",
        "expose -f dep.yaml --name=l --port=80",
    ],
)
