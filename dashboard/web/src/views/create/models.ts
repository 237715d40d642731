/** The forms: for each kind its fields, and the manifest that they make. */
import { apiVersion, type Resource } from "../../app/resources";
import { fill, type FormField, type FormValues, type ListField } from "./fields";

export interface FormModel {
  readonly kind: string;
  readonly apiVersion: string;
  /** The plural name of the resource. */
  readonly resource: string;
  readonly fields: readonly FormField[];
  /** Fields that most people leave alone; shown folded. */
  readonly advanced: readonly FormField[];
  readonly finish?: (manifest: Manifest) => void;
}

export interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace: string; labels?: Record<string, string> };
  [field: string]: unknown;
}

const PROTOCOLS = ["TCP", "UDP", "SCTP"];

const NAME: FormField = { path: "metadata.name", label: "name", type: "text", required: true };
const LABELS: FormField = { path: "metadata.labels", label: "labels", type: "pairs" };

function containers(path: string, withPorts = true): ListField {
  const ports: FormField = {
    path: "ports", label: "ports", add: "addPort", type: "list",
    fields: [
      { path: "containerPort", label: "port", type: "number", required: true },
      { path: "name", label: "portName", type: "text" },
      { path: "protocol", label: "protocol", type: "select", options: PROTOCOLS },
    ],
  };
  return {
    path: `${path}.containers`, label: "containers", add: "addContainer", type: "list", initialCount: 1,
    fields: [
      { path: "name", label: "name", type: "text", initial: "main", required: true },
      { path: "image", label: "image", help: "imageHelp", type: "text", required: true, placeholder: "nginx" },
      { path: "command", label: "command", help: "commandHelp", type: "words" },
      { path: "args", label: "args", type: "words" },
      ...(withPorts ? [ports] : []),
      {
        path: "env", label: "env", add: "addEnv", type: "list",
        fields: [
          { path: "name", label: "name", type: "text", required: true },
          { path: "value", label: "value", type: "text" },
        ],
      },
      { path: "resources.requests.cpu", label: "cpuRequest", help: "cpuRequestHelp", type: "text" },
      { path: "resources.requests.memory", label: "memoryRequest", help: "memoryRequestHelp", type: "text" },
      { path: "resources.limits.cpu", label: "cpuLimit", type: "text" },
      { path: "resources.limits.memory", label: "memoryLimit", type: "text" },
      ...(withPorts
        ? [
            { path: "readinessProbe.httpGet.path", label: "readinessPath", type: "text", placeholder: "/healthz" } as const,
            { path: "readinessProbe.httpGet.port", label: "readinessPort", type: "text", isNumberOrText: true } as const,
          ]
        : []),
      {
        path: "volumeMounts", label: "mounts", add: "addMount", type: "list",
        fields: [
          { path: "name", label: "name", type: "text", required: true },
          { path: "mountPath", label: "mountPath", type: "text", required: true },
          { path: "readOnly", label: "readOnly", type: "checkbox" },
        ],
      },
    ],
  };
}

const VOLUME_SOURCE = "$source";
const VOLUME_TYPE = "$type";

/** A volume has one source among many fields: the form asks for the type and a name. */
function finishVolume(item: Record<string, unknown>, values: FormValues): void {
  const source = String(values[VOLUME_SOURCE] ?? "");
  delete item[VOLUME_SOURCE];
  delete item[VOLUME_TYPE];
  switch (values[VOLUME_TYPE]) {
    case "configMap": item["configMap"] = { name: source }; break;
    case "secret": item["secret"] = { secretName: source }; break;
    case "persistentVolumeClaim": item["persistentVolumeClaim"] = { claimName: source }; break;
    default: item["emptyDir"] = {};
  }
}

function podAdvanced(path: string, restartPolicies: readonly string[]): FormField[] {
  return [
    {
      path: `${path}.volumes`, label: "volumes", add: "addVolume", type: "list", finish: finishVolume,
      fields: [
        { path: "name", label: "name", type: "text", required: true },
        { path: VOLUME_TYPE, label: "volumeType", type: "select", options: ["emptyDir", "configMap", "secret", "persistentVolumeClaim"] },
        { path: VOLUME_SOURCE, label: "volumeSource", type: "text" },
      ],
    },
    ...(restartPolicies.length
      ? [{ path: `${path}.restartPolicy`, label: "restartPolicy", type: "select", options: restartPolicies } as const]
      : []),
    { path: `${path}.serviceAccountName`, label: "serviceAccount", type: "text", placeholder: "default" },
    { path: `${path}.nodeSelector`, label: "nodeSelector", type: "pairs" },
  ];
}

const REPLICAS: FormField = { path: "spec.replicas", label: "replicas", type: "number", initial: "1" };
const TEMPLATE = "spec.template.spec";
const JOB_FIELDS = (path: string): FormField[] => [
  { path: `${path}.completions`, label: "completions", type: "number" },
  { path: `${path}.parallelism`, label: "parallelism", type: "number" },
  { path: `${path}.backoffLimit`, label: "backoffLimit", type: "number" },
  { path: `${path}.activeDeadlineSeconds`, label: "deadline", type: "number" },
  { path: `${path}.ttlSecondsAfterFinished`, label: "ttl", type: "number" },
];

const ACCESS_MODES = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"];

/** The labels of the pods: those of the object, or `app: NAME`. */
function podLabels(manifest: Manifest): Record<string, string> {
  const own = manifest.metadata.labels;
  return own && Object.keys(own).length ? own : { app: manifest.metadata.name };
}

type Template = { metadata?: { labels?: Record<string, string> } };

function selectByMatchLabels(manifest: Manifest): void {
  const spec = manifest["spec"] as { selector?: unknown; template?: Template };
  const labels = podLabels(manifest);
  manifest.metadata.labels = labels;
  spec.selector = { matchLabels: labels };
  spec.template = { metadata: { labels }, ...spec.template };
}

const DEPLOYMENT: FormModel = {
  kind: "Deployment", apiVersion: "apps/v1", resource: "deployments",
  fields: [NAME, REPLICAS, containers(TEMPLATE)],
  advanced: [
    LABELS,
    { path: "spec.strategy.type", label: "strategy", type: "select", options: ["", "RollingUpdate", "Recreate"] },
    { path: "spec.minReadySeconds", label: "minReadySeconds", type: "number" },
    ...podAdvanced(TEMPLATE, []),
  ],
  finish: selectByMatchLabels,
};

export const MODELS: readonly FormModel[] = [
  DEPLOYMENT,
  {
    kind: "Pod", apiVersion: "v1", resource: "pods",
    fields: [NAME, containers("spec")],
    advanced: [LABELS, ...podAdvanced("spec", ["Always", "OnFailure", "Never"])],
  },
  {
    kind: "Service", apiVersion: "v1", resource: "services",
    fields: [
      NAME,
      { path: "spec.type", label: "serviceType", type: "select", options: ["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"] },
      { path: "spec.selector", label: "selector", help: "selectorHelp", type: "pairs", initial: [["app", ""]] },
      {
        path: "spec.ports", label: "ports", add: "addPort", type: "list", initialCount: 1,
        fields: [
          { path: "port", label: "port", type: "number", initial: "80", required: true },
          { path: "targetPort", label: "targetPort", help: "targetPortHelp", type: "text", isNumberOrText: true },
          { path: "name", label: "portName", type: "text" },
          { path: "protocol", label: "protocol", type: "select", options: PROTOCOLS },
          { path: "nodePort", label: "nodePort", type: "number" },
        ],
      },
    ],
    advanced: [
      LABELS,
      { path: "spec.clusterIP", label: "clusterIP", help: "clusterIPHelp", type: "text" },
      { path: "spec.externalName", label: "externalName", type: "text" },
      { path: "spec.sessionAffinity", label: "affinity", type: "select", options: ["None", "ClientIP"] },
    ],
  },
  {
    kind: "ReplicationController", apiVersion: "v1", resource: "replicationcontrollers",
    fields: [NAME, REPLICAS, containers(TEMPLATE)],
    advanced: [LABELS, ...podAdvanced(TEMPLATE, [])],
    finish: (manifest) => {
      selectByMatchLabels(manifest);
      (manifest["spec"] as { selector?: unknown }).selector = podLabels(manifest);
    },
  },
  {
    kind: "StatefulSet", apiVersion: "apps/v1", resource: "statefulsets",
    fields: [
      NAME, REPLICAS,
      { path: "spec.serviceName", label: "serviceName", help: "serviceNameHelp", type: "text" },
      containers(TEMPLATE),
      {
        path: "spec.volumeClaimTemplates", label: "claims", add: "addClaim", type: "list",
        fields: [
          { path: "metadata.name", label: "name", type: "text", required: true },
          { path: "spec.resources.requests.storage", label: "storage", help: "storageHelp", type: "text", initial: "1Gi", required: true },
          { path: "spec.accessModes", label: "accessMode", type: "select", options: ACCESS_MODES, isList: true },
          { path: "spec.storageClassName", label: "storageClass", help: "storageClassHelp", type: "text" },
        ],
      },
    ],
    advanced: [LABELS, ...podAdvanced(TEMPLATE, [])],
    finish: selectByMatchLabels,
  },
  {
    kind: "Job", apiVersion: "batch/v1", resource: "jobs",
    fields: [NAME, containers(TEMPLATE, false), ...JOB_FIELDS("spec")],
    advanced: [LABELS, ...podAdvanced(TEMPLATE, ["Never", "OnFailure"])],
  },
  {
    kind: "CronJob", apiVersion: "batch/v1", resource: "cronjobs",
    fields: [
      NAME,
      { path: "spec.schedule", label: "schedule", help: "scheduleHelp", type: "text", initial: "*/5 * * * *", required: true },
      { path: "spec.timeZone", label: "timeZone", type: "text", placeholder: "Etc/UTC" },
      { path: "spec.concurrencyPolicy", label: "concurrency", type: "select", options: ["Allow", "Forbid", "Replace"] },
      { path: "spec.suspend", label: "suspend", type: "checkbox" },
      containers("spec.jobTemplate.spec.template.spec", false),
    ],
    advanced: [LABELS, ...JOB_FIELDS("spec.jobTemplate.spec"), ...podAdvanced("spec.jobTemplate.spec.template.spec", ["Never", "OnFailure"])],
  },
  {
    kind: "ConfigMap", apiVersion: "v1", resource: "configmaps",
    fields: [NAME, { path: "data", label: "data", type: "pairs", isLong: true, initial: [["", ""]] }],
    advanced: [LABELS, { path: "immutable", label: "immutable", type: "checkbox" }],
  },
  {
    kind: "Secret", apiVersion: "v1", resource: "secrets",
    fields: [
      NAME,
      {
        path: "type", label: "secretType", type: "select",
        options: ["Opaque", "kubernetes.io/tls", "kubernetes.io/dockerconfigjson", "kubernetes.io/basic-auth", "kubernetes.io/ssh-auth"],
      },
      { path: "stringData", label: "data", type: "pairs", isLong: true, initial: [["", ""]] },
    ],
    advanced: [LABELS, { path: "immutable", label: "immutable", type: "checkbox" }],
  },
  {
    kind: "Ingress", apiVersion: "networking.k8s.io/v1", resource: "ingresses",
    fields: [
      NAME,
      { path: "spec.ingressClassName", label: "ingressClass", type: "text" },
      {
        path: "spec.rules", label: "rules", add: "addRule", type: "list", initialCount: 1,
        fields: [
          { path: "host", label: "host", type: "text", placeholder: "shop.example" },
          { path: "http.paths[0].path", label: "path", type: "text", initial: "/" },
          { path: "http.paths[0].pathType", label: "pathType", type: "select", options: ["Prefix", "Exact", "ImplementationSpecific"] },
          { path: "http.paths[0].backend.service.name", label: "backendService", type: "text", required: true },
          { path: "http.paths[0].backend.service.port.number", label: "backendPort", type: "number", initial: "80", required: true },
        ],
      },
    ],
    advanced: [
      LABELS,
      {
        path: "spec.tls", label: "tls", add: "addTls", type: "list",
        fields: [
          { path: "hosts[0]", label: "host", type: "text" },
          { path: "secretName", label: "tlsSecret", type: "text" },
        ],
      },
    ],
  },
  {
    kind: "PersistentVolumeClaim", apiVersion: "v1", resource: "persistentvolumeclaims",
    fields: [
      NAME,
      { path: "spec.resources.requests.storage", label: "storage", help: "storageHelp", type: "text", initial: "1Gi", required: true },
      { path: "spec.accessModes", label: "accessMode", type: "select", options: ACCESS_MODES, isList: true },
      { path: "spec.storageClassName", label: "storageClass", help: "storageClassHelp", type: "text" },
    ],
    advanced: [LABELS, { path: "spec.volumeMode", label: "volumeMode", type: "select", options: ["Filesystem", "Block"] }],
  },
];

export function modelOf(kind: string): FormModel | undefined {
  return MODELS.find((model) => model.kind.toLowerCase() === kind.toLowerCase());
}

export function modelOfResource(resource: Resource): FormModel | undefined {
  return MODELS.find((model) => model.kind === resource.kind && model.apiVersion === apiVersion(resource));
}

export function buildManifest(model: FormModel, values: FormValues, namespace: string): Manifest {
  const manifest: Manifest = { apiVersion: model.apiVersion, kind: model.kind, metadata: { name: "", namespace } };
  fill(manifest, [...model.fields, ...model.advanced], values);
  model.finish?.(manifest);
  return manifest;
}
