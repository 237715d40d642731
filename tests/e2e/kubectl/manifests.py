"""Manifests for tests with kubectl."""

import textwrap


def yaml(text: str) -> str:
    return textwrap.dedent(text).lstrip()


POD = yaml("""
    apiVersion: v1
    kind: Pod
    metadata:
      name: web
      labels: {app: web, tier: front}
    spec:
      containers:
      - name: main
        image: nginx:1.27
        ports:
        - containerPort: 80
    """)

CONFIG_MAP = yaml("""
    apiVersion: v1
    kind: ConfigMap
    metadata:
      name: settings
    data:
      color: red
      size: small
    """)

DEPLOYMENT = yaml("""
    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
    spec:
      replicas: 2
      selector:
        matchLabels: {app: web}
      template:
        metadata:
          labels: {app: web}
        spec:
          containers:
          - name: main
            image: nginx:1.27
    """)

SERVICE = yaml("""
    apiVersion: v1
    kind: Service
    metadata:
      name: web
    spec:
      clusterIP: None
      selector: {app: web}
      ports:
      - port: 80
    """)
