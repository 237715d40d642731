"""`kubectl edit` with an editor that is a command."""

from tests.e2e.kubectl.comparison import Area, Line
from tests.e2e.kubectl.comparison_files import FILES

AREA = Area(
    files=FILES,
    lines=[
        "create -f cm.yaml",
        "create -f dep.yaml",
        Line("edit cm cm", editor="true"),
        Line("edit cm cm", editor="sed -i s/a:.b/a:.z/"),
        Line("edit cm cm", editor="false"),
        Line("edit cm cm", editor="noeditorhere"),
        Line("edit cm cm", editor="truncate -s 0"),
        Line("edit cm nope", editor="true"),
        Line("edit", editor="true"),
        Line("edit deployment dep -o json", editor="sed -i s/nginx:1/nginx:5/"),
        Line("edit deployment dep --output-patch", editor="sed -i s/nginx:5/nginx:6/"),
        Line("edit cm cm", editor="sed -i s/name:.cm/name:.cx/"),
        Line("edit deployment dep", editor="sed -i s/replicas:.2/replicas:.-2/"),
        Line("edit cm cm", editor="sed -i s/kind:/kind/"),
        Line("create --edit -f svc.yaml", editor="sed -i s/svc/svd/"),
        Line("create --edit -f svc.yaml", editor="true"),
        Line("edit cm", editor="true"),
    ],
)
