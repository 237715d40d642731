"""The usage and the examples of the commands for troubleshooting and debugging."""

HELP = {
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
}
