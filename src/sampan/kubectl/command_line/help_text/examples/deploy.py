"""The usage and the examples of the deploy commands."""

_ROLLOUT = "(TYPE NAME | TYPE/NAME) [flags] [options]"

HELP = {
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
}
