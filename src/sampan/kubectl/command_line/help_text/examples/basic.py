"""The usage and the examples of kubectl itself and of the basic commands other than `create`."""

_OBJECTS = "(-f FILE | TYPE NAME | TYPE/NAME | TYPE -l SELECTOR)"

HELP = {
    "": (
        "[flags] [options]",
        """
# Show the pods of the current namespace
get pods

# Apply all manifests of a directory
apply -f ./manifests/
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
}
