"""The generators of `kubectl create`."""

from tests.e2e.kubectl.comparison import Area
from tests.e2e.kubectl.comparison_files import FILES

AREA = Area(
    files=FILES,
    lines=[
        "create ns a --dry-run=client -o yaml",
        "create cm a --from-literal=a=b --from-file=file.txt --dry-run=client -o yaml",
        "create cm a --dry-run=client -o yaml",
        "create cm a --from-env-file=env --dry-run=client -o yaml",
        "create cm a --from-literal=a --dry-run=client -o yaml",
        "create cm a --from-file=/no --dry-run=client -o yaml",
        "create secret generic a --from-literal=a=b --dry-run=client -o yaml",
        "create secret generic a --type=x --from-file=k=file.txt --dry-run=client -o yaml",
        (
            "create secret docker-registry r --docker-username=u --docker-password=p --docker-email=e "
            "--dry-run=client -o yaml"
        ),
        "create secret docker-registry r --dry-run=client -o yaml",
        "create secret tls t --cert=/no --key=/no --dry-run=client -o yaml",
        "create secret tls t --dry-run=client -o yaml",
        "create svc clusterip a --tcp=80:8080 --dry-run=client -o yaml",
        "create svc clusterip a --clusterip=None --dry-run=client -o yaml",
        "create svc clusterip a --dry-run=client -o yaml",
        "create svc nodeport a --tcp=80 --node-port=30001 --dry-run=client -o yaml",
        "create svc loadbalancer a --tcp=80:http --dry-run=client -o yaml",
        "create svc externalname a --external-name=b.c --dry-run=client -o yaml",
        "create svc externalname a --dry-run=client -o yaml",
        "create deployment a --image=x/nginx:1 --port=3 -r 2 --dry-run=client -o yaml",
        "create deployment a --image=a,b --dry-run=client -o yaml",
        "create deployment a --image=a -- date -u --dry-run=client -o yaml",
        "create deployment a --dry-run=client -o yaml",
        "create job a --image=b -- date --dry-run=client -o yaml",
        "create job a --dry-run=client -o yaml",
        "create cronjob a --image=b '--schedule=*/1 * * * *' --restart=Never --dry-run=client -o yaml",
        "create cronjob a --image=b --dry-run=client -o yaml",
        "create sa a --dry-run=client -o yaml",
        "create quota a --hard=cpu=1,memory=1Gi --scopes=BestEffort --dry-run=client -o yaml",
        "create quota a --hard=cpu --dry-run=client -o yaml",
        "create pdb a --selector=a=b --min-available=50% --dry-run=client -o yaml",
        "create pdb a --selector=a=b --dry-run=client -o yaml",
        "create pdb a --dry-run=client -o yaml",
        "create pc a --value=10 --global-default --description=hi --dry-run=client -o yaml",
        ("create ing a '--rule=foo.com/bar*=svc:80,tls=s' --annotation=a=b --class=c --dry-run=client -o yaml"),
        "create ing a --default-backend=s:80 --dry-run=client -o yaml",
        "create ing a --dry-run=client -o yaml",
        "create ing a --rule=x --dry-run=client -o yaml",
        (
            "create clusterrolebinding a --clusterrole=c --user=u --group=g --serviceaccount=x:y "
            "--dry-run=client -o yaml"
        ),
        "create clusterrolebinding a --dry-run=client -o yaml",
        "create rolebinding a --role=c --user=u --serviceaccount=x:y --dry-run=client -o yaml",
        "create rolebinding a --dry-run=client -o yaml",
        "create rolebinding a --role=c --serviceaccount=x --dry-run=client -o yaml",
        ("create role a --verb=get,list --resource=pods,deploy.apps/scale --resource-name=x --dry-run=client -o yaml"),
        "create role a --verb=get --dry-run=client -o yaml",
        "create role a --dry-run=client -o yaml",
        "create role a --verb=foo --resource=pods --dry-run=client -o yaml",
        "create role a --verb=get --resource=foo --dry-run=client -o yaml",
        "create clusterrole a --verb=get --resource=nodes --dry-run=client -o yaml",
        "create clusterrole a --verb=get --non-resource-url=/healthz --dry-run=client -o yaml",
        "create clusterrole a --aggregation-rule=a=b --dry-run=client -o yaml",
        "create clusterrole a --verb=list --non-resource-url=/x --dry-run=client -o yaml",
        "create ns --dry-run=client -o yaml",
        "create ns a b --dry-run=client -o yaml",
        "create foo --dry-run=client -o yaml",
    ],
)
