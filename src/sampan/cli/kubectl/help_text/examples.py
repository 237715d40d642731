"""The usage and the examples of every command.

Each example is a comment and one or more command lines without the name of the program. A line that begins with `|` is
printed as it is.
"""

from __future__ import annotations

from collections.abc import Mapping

_OBJECTS = "(-f FILE | TYPE NAME | TYPE/NAME | TYPE -l SELECTOR)"
_ROLLOUT = "(TYPE NAME | TYPE/NAME) [flags] [options]"

HELP: Mapping[str, tuple[str, str]] = {
    "": (
        "[flags] [options]",
        """
# Show the pods of the current namespace
get pods

# Apply all manifests of a directory
apply -f ./manifests/
""",
    ),
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
    "expose": (
        f"{_OBJECTS} [--port=PORT] [--protocol=TCP|UDP|SCTP] [--target-port=PORT] [--name=NAME] [options]",
        """
# Create a service for a deployment
expose deployment web --port=80 --target-port=8080

# Create a service for a pod on a port of all nodes
expose pod web --port=80 --name=frontend --type=NodePort
""",
    ),
    "run": (
        "NAME --image=IMAGE [--env=KEY=VALUE] [--port=PORT] [--dry-run=server|client] [-- COMMAND [ARGS...]] [options]",
        """
# Start a pod and a service for it
run web --image=nginx --port=80 --expose

# Start a shell in a pod that is deleted afterwards
run shell -it --rm --image=busybox --restart=Never -- sh
""",
    ),
    "set": (
        "COMMAND [options]",
        """
# Change the image of a container
set image deployment/web web=nginx:1.27
""",
    ),
    "set env": (
        "TYPE/NAME KEY=VALUE ... [KEY-] [options]",
        """
# Set one variable and remove another one
set env deployment/web LEVEL=debug OLD-

# Take all keys of a config map
set env deployment/web --from=configmap/settings --prefix=APP_

# List the variables of all pods
set env pods --all --list
""",
    ),
    "set image": (
        f"{_OBJECTS} CONTAINER=IMAGE ... [options]",
        """
# Change the image of a container
set image deployment/web web=nginx:1.27

# Change the images of all containers of all daemon sets
set image daemonsets --all *=agent:2
""",
    ),
    "set resources": (
        f"{_OBJECTS} ([--limits=LIMITS] [--requests=REQUESTS]) [options]",
        """
# Limit CPU and memory of one container
set resources deployment web -c=web --limits=cpu=200m,memory=512Mi

# Remove request and limit of the CPU
set resources deployment web --limits=cpu=0 --requests=cpu=0
""",
    ),
    "set selector": (
        f"{_OBJECTS} SELECTOR [--resource-version=VERSION] [options]",
        """
# Let a service select other pods
set selector service web app=web,version=2
""",
    ),
    "set serviceaccount": (
        f"{_OBJECTS} SERVICE-ACCOUNT [options]",
        """
# Change the service account of a deployment
set serviceaccount deployment web robot
""",
    ),
    "set subject": (
        f"{_OBJECTS} [--user=USER] [--group=GROUP] [--serviceaccount=NAMESPACE:NAME] [options]",
        """
# Add a user and a service account to a binding
set subject rolebinding viewers --user=ann --serviceaccount=team-a:robot
""",
    ),
    "explain": (
        "TYPE[.FIELD...] [--recursive] [-o plaintext|plaintext-openapiv2] [options]",
        """
# Show the documentation of pods
explain pods

# Show all fields below a field
explain deployment.spec.strategy --recursive

# Choose a version of the API
explain cronjobs --api-version=batch/v1
""",
    ),
    "get": (
        "[-o FORMAT] (TYPE[.VERSION][.GROUP] [NAME | -l SELECTOR] | TYPE/NAME ...) [flags] [options]",
        """
# List the pods of the current namespace, with more columns
get pods -o wide

# List deployments and services of all namespaces
get deployments,services -A

# Print one object as YAML
get pod web -o yaml

# Print a field of all pods with a label
get pods -l app=web -o jsonpath='{.items[*].status.podIP}'

# Choose the columns
get pods -o custom-columns=NAME:.metadata.name,NODE:.spec.nodeName

# Print changes until Ctrl-C is pressed
get pods -w
""",
    ),
    "edit": (
        "(TYPE NAME | -f FILE) [options]",
        """
# Edit a service
edit svc/web

# Edit the status of a deployment
edit deployment web --subresource=status
""",
    ),
    "delete": (
        "([-f FILE] | [-k DIRECTORY] | TYPE [(NAME | -l SELECTOR | --all)]) [options]",
        """
# Delete the objects of a file
delete -f ./pod.yaml

# Delete pods and services with a label
delete pods,services -l app=web

# Delete a pod at once, without graceful termination
delete pod web --now
""",
    ),
    "rollout": (
        "COMMAND [options]",
        """
# Return to the previous revision
rollout undo deployment/web

# Wait until a rollout is complete
rollout status daemonset/agent
""",
    ),
    "rollout history": (
        _ROLLOUT,
        """
# List the revisions of a deployment
rollout history deployment/web

# Show one revision
rollout history deployment/web --revision=3
""",
    ),
    "rollout pause": (
        "TYPE/NAME [options]",
        """
# Collect several changes before they are rolled out
rollout pause deployment/web
""",
    ),
    "rollout restart": (
        "TYPE/NAME [options]",
        """
# Replace all pods of deployments with a label
rollout restart deployment --selector=app=web
""",
    ),
    "rollout resume": (
        "TYPE/NAME [options]",
        """
# Roll out the changes that were collected
rollout resume deployment/web
""",
    ),
    "rollout status": (
        _ROLLOUT,
        """
# Wait at most a minute for a rollout
rollout status deployment/web --timeout=60s
""",
    ),
    "rollout undo": (
        _ROLLOUT,
        """
# Return to revision 3
rollout undo deployment/web --to-revision=3
""",
    ),
    "rolling-update": (
        "OLD-NAME ([NEW-NAME] --image=IMAGE | -f FILE) [options]",
        """
# Replace a replication controller by that of a file
rolling-update web-v1 -f web-v2.json

# Change the image and keep the name
rolling-update web --image=web:v2

# Reverse an update that is in progress
rolling-update web-v1 web-v2 --rollback
""",
    ),
    "scale": (
        "[--resource-version=VERSION] [--current-replicas=N] --replicas=N (-f FILE | TYPE NAME) [options]",
        """
# Set the number of replicas
scale deployment/web --replicas=3

# Scale only if there are two replicas now
scale statefulset database --current-replicas=2 --replicas=3
""",
    ),
    "autoscale": (
        "(-f FILE | TYPE NAME | TYPE/NAME) [--min=N] --max=N [--cpu=CPU] [--memory=MEMORY] [options]",
        """
# Keep the CPU usage at 80% with 2 to 10 pods
autoscale deployment web --min=2 --max=10 --cpu=80%
""",
    ),
    "certificate": (
        "COMMAND [options]",
        """
# Approve a request
certificate approve csr-x
""",
    ),
    "certificate approve": (
        "(-f FILE | NAME) [options]",
        """
# Approve a request
certificate approve csr-x
""",
    ),
    "certificate deny": (
        "(-f FILE | NAME) [options]",
        """
# Deny a request
certificate deny csr-x
""",
    ),
    "cluster-info": (
        "[flags] [options]",
        """
# Show the address of the control plane
cluster-info
""",
    ),
    "cluster-info dump": (
        "[flags] [options]",
        """
# Write the objects and logs of all namespaces to files
cluster-info dump --all-namespaces --output-directory=./dump
""",
    ),
    "top": (
        "COMMAND [options]",
        """
# Show the usage of all nodes
top node
""",
    ),
    "top node": (
        "[NAME | -l SELECTOR] [options]",
        """
# Show the nodes with the highest memory usage first
top node --sort-by=memory
""",
    ),
    "top pod": (
        "[NAME | -l SELECTOR] [options]",
        """
# Show the usage of the containers of a pod
top pod web --containers

# Show the pods of all namespaces with the highest CPU usage first
top pod -A --sort-by=cpu
""",
    ),
    "cordon": (
        "NODE [options]",
        """
# Place no new pods on a node
cordon node-1
""",
    ),
    "uncordon": (
        "NODE [options]",
        """
# Allow pods on a node again
uncordon node-1
""",
    ),
    "drain": (
        "NODE [options]",
        """
# Evict the pods of a node, except those of daemon sets
drain node-1 --ignore-daemonsets

# Evict also pods without a controller, and wait at most 15 minutes
drain node-1 --force --grace-period=900 --timeout=15m
""",
    ),
    "taint": (
        "node NAME KEY[=VALUE]:EFFECT ... [options]",
        """
# Keep pods without a toleration away
taint node node-1 dedicated=gpu:NoSchedule

# Remove a taint
taint node node-1 dedicated:NoSchedule-
""",
    ),
    "describe": (
        "(-f FILE | TYPE [NAME-PREFIX | -l SELECTOR] | TYPE/NAME) [options]",
        """
# Show the details and events of a pod
describe pod web

# Show all deployments with a label
describe deployments -l app=web
""",
    ),
    "logs": (
        "[-f] [-p] (POD | TYPE/NAME) [-c CONTAINER] [options]",
        """
# Print the log of a pod
logs web

# Follow the logs of all pods with a label
logs -f -l app=web --all-containers --prefix

# Print the last 20 lines of a container that was restarted
logs web -c main --previous --tail=20

# Print the last hour of a deployment
logs deployment/web --since=1h
""",
    ),
    "attach": (
        "(POD | TYPE/NAME) [-c CONTAINER] [options]",
        """
# Print the output of a running pod
attach web

# Use the terminal of a container
attach web -c main -i -t
""",
    ),
    "exec": (
        "(POD | TYPE/NAME) [-c CONTAINER] [flags] -- COMMAND [ARGS...] [options]",
        """
# Run a command
exec web -- date

# Start a shell in a pod of a deployment
exec -it deploy/web -- sh
""",
    ),
    "port-forward": (
        "TYPE/NAME [LOCAL-PORT:]REMOTE-PORT ... [options]",
        """
# Forward port 8080 of this machine to port 80 of a pod
port-forward pod/web 8080:80

# Forward any free port to a service
port-forward svc/web :80

# Listen on other addresses
port-forward --address localhost,10.19.21.23 pod/web 8888:5000
""",
    ),
    "proxy": (
        "[--port=PORT] [--www=DIRECTORY] [--www-prefix=PREFIX] [--api-prefix=PREFIX] [options]",
        """
# Serve the API on any free port
proxy --port=0

# Serve files beside the API
proxy --www=./site --www-prefix=/site/ --api-prefix=/k8s-api/
""",
    ),
    "cp": (
        "SOURCE TARGET [options]",
        """
# Copy a directory to a pod
cp ./files web:/tmp/files

# Copy a file from a container of another namespace
cp team-a/web:/etc/hosts ./hosts -c main
""",
    ),
    "auth": (
        "COMMAND [options]",
        """
# Check whether pods may be created
auth can-i create pods
""",
    ),
    "auth can-i": (
        "VERB (TYPE | TYPE/NAME | PATH) [options]",
        """
# Check whether pods of any namespace may be created
auth can-i create pods --all-namespaces

# Check a path that is not a resource
auth can-i get /healthz

# List everything that is allowed in a namespace
auth can-i --list -n team-a
""",
    ),
    "auth reconcile": (
        "-f FILE [options]",
        """
# Add the rules and subjects that are missing
auth reconcile -f rbac.yaml

# Remove rules that are not in the file
auth reconcile -f rbac.yaml --remove-extra-permissions
""",
    ),
    "auth whoami": (
        "[options]",
        """
# Show the current user
auth whoami
""",
    ),
    "debug": (
        "(POD | TYPE/NAME) [-- COMMAND [ARGS...]] [options]",
        """
# Add a container with a shell to a pod
debug web -it --image=busybox

# Debug a copy of a pod, with another image
debug web --copy-to=copy --set-image=main=busybox

# Start a pod in the namespaces of a node
debug node/node-1 -it --image=busybox
""",
    ),
    "events": (
        "[-o FORMAT] [--for TYPE/NAME] [--watch] [--types=Normal,Warning] [options]",
        """
# List the events of the current namespace
events

# Follow the events of a pod
events --for pod/web --watch

# List warnings of all namespaces
events -A --types=Warning
""",
    ),
    "diff": (
        "-f FILE [options]",
        """
# Show what apply would change
diff -f ./web.yaml
""",
    ),
    "apply": (
        "(-f FILE | -k DIRECTORY) [options]",
        """
# Apply a file
apply -f ./web.yaml

# Apply a kustomization
apply -k ./overlays/production

# Let the server merge the configuration
apply -f ./web.yaml --server-side

# Delete objects with a label that are not in the file any more
apply -f ./web.yaml --prune -l app=web
""",
    ),
    "apply edit-last-applied": (
        "(TYPE/NAME | TYPE NAME | -f FILE) [options]",
        """
# Edit the last applied configuration
apply edit-last-applied deployment/web
""",
    ),
    "apply set-last-applied": (
        "-f FILE [options]",
        """
# Store the content of a file as the last applied configuration
apply set-last-applied -f web.yaml --create-annotation
""",
    ),
    "apply view-last-applied": (
        "(TYPE [NAME | -l SELECTOR] | TYPE/NAME | -f FILE) [options]",
        """
# Show the last applied configuration
apply view-last-applied deployment/web -o json
""",
    ),
    "patch": (
        "(-f FILE | TYPE NAME) [-p PATCH | --patch-file FILE] [options]",
        """
# Change a field with a strategic merge patch
patch node node-1 -p '{"spec":{"unschedulable":true}}'

# Remove a label with a JSON patch
patch pod web --type=json -p '[{"op":"remove","path":"/metadata/labels/a"}]'
""",
    ),
    "replace": (
        "-f FILE [options]",
        """
# Replace an object
replace -f ./pod.yaml

# Delete an object and create it again
replace --force -f ./pod.yaml
""",
    ),
    "wait": (
        "([-f FILE] | TYPE/NAME | TYPE [(-l SELECTOR | --all)]) "
        "--for=(create | delete | condition=NAME[=VALUE] | jsonpath=PATH[=VALUE]) [options]",
        """
# Wait until a pod is ready
wait --for=condition=Ready pod/web

# Wait for the value of a field
wait --for=jsonpath='{.status.phase}'=Running pods -l app=web

# Wait until a pod is deleted
delete pod/web --wait=false
wait --for=delete pod/web --timeout=60s
""",
    ),
    "kustomize": (
        "DIRECTORY [options]",
        """
# Print the objects of an overlay
kustomize overlays/production

# Print the objects of a git repository
kustomize https://github.com/example/app.git//overlays/test?ref=v1.0.6
""",
    ),
    "label": (
        "[--overwrite] (-f FILE | TYPE NAME) KEY=VALUE ... [KEY-] [options]",
        """
# Add a label
label pod web tier=frontend

# Change a label that exists, and remove another one
label --overwrite pods web tier=backend old-
""",
    ),
    "annotate": (
        "[--overwrite] (-f FILE | TYPE NAME) KEY=VALUE ... [KEY-] [options]",
        """
# Add an annotation
annotate pod web description='my frontend'

# Remove an annotation of all pods
annotate pods --all description-
""",
    ),
    "completion": (
        "(bash | zsh | fish | powershell)",
        """
# Complete commands in this shell
|source <(sampan kubectl completion bash)

# Complete commands in every zsh
|sampan kubectl completion zsh > "${fpath[1]}/_kubectl"
""",
    ),
    "api-resources": (
        "[flags] [options]",
        """
# List the types that can be listed, without namespace
api-resources --verbs=list --namespaced=false -o name
""",
    ),
    "api-versions": (
        "",
        """
# List the versions
api-versions
""",
    ),
    "config": (
        "COMMAND [options]",
        """
# Choose another cluster
config use-context production

# Set the namespace of the current context
config set-context --current --namespace=team-a
""",
    ),
    "config current-context": (
        "[flags] [options]",
        """
# Print the name of the current context
config current-context
""",
    ),
    "config delete-cluster": (
        "NAME [options]",
        """
# Delete a cluster
config delete-cluster test
""",
    ),
    "config delete-context": (
        "NAME [options]",
        """
# Delete a context
config delete-context test
""",
    ),
    "config delete-user": (
        "NAME [options]",
        """
# Delete a user
config delete-user ann
""",
    ),
    "config get-clusters": (
        "[options]",
        """
# List the clusters
config get-clusters
""",
    ),
    "config get-contexts": (
        "[-o=name] [NAME ...] [options]",
        """
# List all contexts
config get-contexts

# Show one context
config get-contexts production
""",
    ),
    "config get-users": (
        "[options]",
        """
# List the users
config get-users
""",
    ),
    "config rename-context": (
        "OLD-NAME NEW-NAME [options]",
        """
# Rename a context
config rename-context old new
""",
    ),
    "config set": (
        "PROPERTY VALUE [options]",
        """
# Set the server of a cluster
config set clusters.test.server https://192.0.2.1:6443

# Store a certificate in the file
config set clusters.test.certificate-authority-data $(base64 -w0 ca.crt)
""",
    ),
    "config set-cluster": (
        "NAME [--server=URL] [--certificate-authority=FILE] [--insecure-skip-tls-verify=true] "
        "[--tls-server-name=NAME] [options]",
        """
# Create a cluster with its certificate authority
config set-cluster test --certificate-authority=ca.crt --embed-certs
""",
    ),
    "config set-context": (
        "(NAME | --current) [--cluster=NAME] [--user=NAME] [--namespace=NAMESPACE] [options]",
        """
# Set the user of a context
config set-context test --user=ann

# Set the namespace of the current context
config set-context --current --namespace=team-a
""",
    ),
    "config set-credentials": (
        "NAME [--client-certificate=FILE] [--client-key=FILE] [--token=TOKEN] [--username=USER] "
        "[--password=PASSWORD] [--auth-provider=NAME] [--auth-provider-arg=KEY=VALUE] [--exec-command=COMMAND] "
        "[--exec-api-version=VERSION] [--exec-arg=ARG] [--exec-env=KEY=VALUE] [options]",
        """
# Use a client certificate
config set-credentials ann --client-certificate=ann.crt --client-key=ann.key

# Use a program that prints credentials
config set-credentials ann --exec-command=login
""",
    ),
    "config unset": (
        "PROPERTY [options]",
        """
# Unset the current context
config unset current-context
""",
    ),
    "config use-context": (
        "NAME [options]",
        """
# Make a context the current one
config use-context production
""",
    ),
    "config view": (
        "[flags] [options]",
        """
# Show the merged configuration without secrets
config view

# Show only what the current context uses, with secrets
config view --minify --raw
""",
    ),
    "kuberc": (
        "COMMAND [options]",
        """
# Show the preferences
kuberc view
""",
    ),
    "kuberc set": (
        "--section (defaults | aliases | credentialplugin) [--command COMMAND] [options]",
        """
# Print more columns by default
kuberc set --section=defaults --command=get --option=output=wide

# Add an alias
kuberc set --section=aliases --name=getn --command=get --prependarg=nodes

# Run no credential plug-ins
kuberc set --section=credentialplugin --policy=DenyAll
""",
    ),
    "kuberc view": (
        "[options]",
        """
# Show the preferences as JSON
kuberc view -o json
""",
    ),
    "options": ("", ""),
    "plugin": (
        "COMMAND [options]",
        """
# List the plug-ins
plugin list
""",
    ),
    "plugin list": (
        "[options]",
        """
# Print only the names of the programs
plugin list --name-only
""",
    ),
    "version": (
        "[flags] [options]",
        """
# Print the versions of client and server
version

# Print the version of the client as JSON
version --client -o json
""",
    ),
}
