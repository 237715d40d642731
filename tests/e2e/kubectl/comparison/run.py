"""`kubectl run` without a terminal."""

from tests.e2e.kubectl.comparison import Area
from tests.e2e.kubectl.comparison_files import FILES

AREA = Area(
    files=FILES,
    lines=[
        "run a --image=nginx",
        "run a --image=nginx",
        "run",
        "run b",
        "run b --image=",
        "run b --image=NGINX",
        "run b --image=nginx -t",
        "run b --image=nginx --rm",
        "run b --image=nginx --expose",
        "run b --image=nginx --expose --port=80",
        ("run c --image=nginx --dry-run=client -o yaml --env=A=b --labels=x=y --annotations=k=v --command -- sleep 1"),
        "run c --image=nginx --dry-run=client -o yaml -- arg",
        "run c --image=nginx --dry-run=server",
        "run c --image=nginx --restart=foo",
        ("run c --image=nginx --restart=Never --image-pull-policy=Never --privileged -o yaml --dry-run=client"),
        "run c --image=nginx --image-pull-policy=foo",
        "run c --image=nginx --env=x",
        'run c --image=nginx --overrides \'{"spec":{"hostNetwork":true}}\' --dry-run=client -o yaml',
        "run d --image=nginx -o name",
        "run c --image=nginx --expose --port=80 --dry-run=client -o yaml",
        "run c --image=nginx -i --dry-run=client",
        "run c --image=nginx --port=x",
        "run c --image=nginx --port=x --expose",
        "run c --image=nginx --pod-running-timeout=0s",
        "run c --image=nginx --labels=x",
        "run c --image=nginx --dry-run=client -f x.yaml",
        "run c --image=nginx --dry-run=client --filename=x.yaml",
        "run e --image=nginx --expose --port=80",
    ],
)
