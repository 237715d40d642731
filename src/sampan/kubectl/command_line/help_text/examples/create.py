"""The usage and the examples of `create` and its sub-commands."""

HELP = {
    "create": (
        "-f FILE [options]",
        """
# Create a pod from a file
create -f ./pod.yaml

# Create objects from standard input
|cat pod.json | sampan kubectl create -f -

# Edit the content of a file before the object is created
create -f registry.yaml --edit -o json
""",
    ),
    "create clusterrole": (
        "NAME --verb=VERB --resource=RESOURCE.GROUP [--resource-name=NAME] [options]",
        """
# Allow to read pods of all namespaces
create clusterrole pod-reader --verb=get,list,watch --resource=pods

# Allow to read a path that is not a resource
create clusterrole monitor --verb=get --non-resource-url=/logs/*

# Collect the rules of other cluster roles by their labels
create clusterrole all --aggregation-rule=rbac.example.com/aggregate=true
""",
    ),
    "create clusterrolebinding": (
        "NAME --clusterrole=NAME [--user=USER] [--group=GROUP] [--serviceaccount=NAMESPACE:NAME] [options]",
        """
# Make two users administrators of the cluster
create clusterrolebinding admins --clusterrole=admin --user=ann --user=bob
""",
    ),
    "create configmap": (
        "NAME [--from-file=[KEY=]SOURCE] [--from-literal=KEY=VALUE] [options]",
        """
# Create a config map with all files of a directory
create configmap settings --from-file=./config/

# Create a config map from single values
create configmap settings --from-literal=color=blue --from-literal=size=10

# Create a config map from a file with lines KEY=VALUE
create configmap settings --from-env-file=./settings.env
""",
    ),
    "create cronjob": (
        "NAME --image=IMAGE --schedule='0/5 * * * ?' [-- COMMAND [ARGS...]] [options]",
        """
# Run a command every minute
create cronjob hello --image=busybox --schedule="*/1 * * * *" -- date
""",
    ),
    "create deployment": (
        "NAME --image=IMAGE [-- COMMAND [ARGS...]] [options]",
        """
# Create a deployment with three replicas
create deployment web --image=nginx --replicas=3 --port=80

# Print the manifest without creating the object
create deployment web --image=nginx --dry-run=client -o yaml
""",
    ),
    "create ingress": (
        "NAME --rule=HOST/PATH=SERVICE:PORT[,tls[=SECRET]] [options]",
        """
# Route a host to a service, with TLS
create ingress web --rule="example.com/*=web:80,tls=web-certificate"

# Route everything to one service
create ingress web --class=public --default-backend=web:http
""",
    ),
    "create job": (
        "NAME (--image=IMAGE | --from=cronjob/NAME) [-- COMMAND [ARGS...]] [options]",
        """
# Run a command once
create job hello --image=busybox -- date

# Run a cron job now
create job now --from=cronjob/report
""",
    ),
    "create namespace": (
        "NAME [--dry-run=server|client|none] [options]",
        """
# Create a namespace
create namespace team-a
""",
    ),
    "create poddisruptionbudget": (
        "NAME --selector=SELECTOR (--min-available=N | --max-unavailable=N) [options]",
        """
# Keep at least half of the pods
create poddisruptionbudget web --selector=app=web --min-available=50%
""",
    ),
    "create priorityclass": (
        "NAME --value=VALUE [--global-default=BOOL] [options]",
        """
# Create a priority class
create priorityclass high --value=1000 --description="important pods"
""",
    ),
    "create quota": (
        "NAME [--hard=KEY=VALUE,...] [--scopes=SCOPE,...] [options]",
        """
# Limit CPU, memory and pods of a namespace
create quota compute --hard=cpu=1,memory=1G,pods=2
""",
    ),
    "create role": (
        "NAME --verb=VERB --resource=RESOURCE.GROUP/SUBRESOURCE [--resource-name=NAME] [options]",
        """
# Allow to read pods and their logs
create role reader --verb=get,list,watch --resource=pods,pods/log

# Allow to change one deployment
create role deployer --verb=patch --resource=deployments.apps --resource-name=a
""",
    ),
    "create rolebinding": (
        "NAME (--clusterrole=NAME | --role=NAME) [--user=USER] [--group=GROUP] [--serviceaccount=NAMESPACE:NAME] "
        "[options]",
        """
# Give a service account the right to view a namespace
create rolebinding viewers --clusterrole=view --serviceaccount=a:robot
""",
    ),
    "create secret": (
        "(docker-registry | generic | tls) [options]",
        """
# Create a secret from single values
create secret generic database --from-literal=password=secret
""",
    ),
    "create secret docker-registry": (
        "NAME --docker-username=USER --docker-password=PASSWORD [--docker-server=SERVER] [options]",
        """
# Create credentials for a registry
create secret docker-registry pull --docker-username=ann --docker-password=pw

# Copy them from a file of Docker
create secret docker-registry pull --from-file=$HOME/.docker/config.json
""",
    ),
    "create secret generic": (
        "NAME [--type=TYPE] [--from-file=[KEY=]SOURCE] [--from-literal=KEY=VALUE] [options]",
        """
# Create a secret from files
create secret generic keys --from-file=id=./id_rsa --from-file=./known_hosts

# Create a secret from a file with lines KEY=VALUE
create secret generic database --from-env-file=./database.env
""",
    ),
    "create secret tls": (
        "NAME --cert=FILE --key=FILE [options]",
        """
# Create a secret for TLS
create secret tls web --cert=tls.crt --key=tls.key
""",
    ),
    "create service": (
        "(clusterip | externalname | loadbalancer | nodeport) [options]",
        """
# Create a service of the default type
create service clusterip web --tcp=80:8080
""",
    ),
    "create service clusterip": (
        "NAME [--tcp=PORT:TARGET] [options]",
        """
# Create a headless service
create service clusterip web --clusterip=None
""",
    ),
    "create service externalname": (
        "NAME --external-name=DNS-NAME [--tcp=PORT:TARGET] [options]",
        """
# Create an alias of a DNS name
create service externalname database --external-name=db.example.com
""",
    ),
    "create service loadbalancer": (
        "NAME [--tcp=PORT:TARGET] [options]",
        """
# Create a load balancer
create service loadbalancer web --tcp=80:8080
""",
    ),
    "create service nodeport": (
        "NAME [--tcp=PORT:TARGET] [--node-port=PORT] [options]",
        """
# Create a service on a port of all nodes
create service nodeport web --tcp=80:8080 --node-port=30080
""",
    ),
    "create serviceaccount": (
        "NAME [options]",
        """
# Create a service account
create serviceaccount robot
""",
    ),
    "create token": (
        "SERVICE-ACCOUNT [options]",
        """
# Request a token for a service account, valid for ten minutes
create token robot --duration=10m
""",
    ),
}
