"""The usage and the examples of the advanced commands."""

HELP = {
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
}
