/** Owners above, owned objects below, and what the object refers to or is selected by. */
import { useEffect, useState } from "preact/hooks";
import { catalog } from "../../app/i18n";
import { asApiError, cluster as clusterClient, type ApiError } from "../../app/http";
import type { KubernetesObject, ObjectList, OwnerReference } from "../../app/kubernetes";
import { discovery, listPath, objectHref, objectPath, type Resource, type ResourceCatalog } from "../../app/resources";
import { Age, ErrorBox, Loading, Status } from "../../components";
import type { DetailTabProps } from "..";
import { objectStatus } from ".";
import { isRelated, ownedKinds, references, SELECTED_BY, type Reference } from "./relations";

const t = catalog({
  owners: ["Owner tree", "Owner 树"],
  related: ["Related objects", "关联对象"],
  refersTo: ["Refers to", "引用"],
  relatedBy: ["Uses or selects it, or is selected", "使用、选择它或被它选择"],
  none: ["No related objects", "没有关联对象"],
  forbidden: ["Some kinds may not be listed: {kinds}", "部分类型无权列出：{kinds}"],
  missing: ["does not exist", "不存在"],
});

interface TreeNode {
  readonly resource: Resource;
  readonly object: KubernetesObject;
  readonly children: readonly TreeNode[];
}

interface Relations {
  readonly owners: readonly { readonly resource: Resource | undefined; readonly owner: OwnerReference; readonly object: KubernetesObject | null }[];
  readonly tree: TreeNode;
  readonly related: readonly { readonly resource: Resource; readonly object: KubernetesObject }[];
  readonly forbidden: readonly string[];
}

const DEPTH = 3;
const LIMIT = 500;

export default function Tree({ cluster, resource, object }: DetailTabProps) {
  const kinds = discovery(cluster).value.catalog;
  const [relations, setRelations] = useState<Relations | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  useEffect(() => {
    if (!kinds) return undefined;
    let isCurrent = true;
    loadRelations(cluster, kinds, resource, object).then((loaded) => { if (isCurrent) setRelations(loaded); }, (reason: unknown) => { if (isCurrent) setError(asApiError(reason)); });
    return () => { isCurrent = false; };
  }, [cluster, kinds, resource, object.metadata.uid, object.metadata.resourceVersion]);
  if (error) return <ErrorBox error={error} />;
  if (!relations || !kinds) return <Loading />;
  const named = references(resource, object);
  return (
    <div class="relations">
      <section class="card">
        <h2>{t("owners")}</h2>
        <ul class="tree">
          {[...relations.owners].reverse().map(({ resource: kind, owner, object: found }, depth) => (
            <li key={owner.uid} class={`depth-${Math.min(depth, 5)}`}>
              <NodeLabel cluster={cluster} resource={kind} kind={owner.kind} name={owner.name} namespace={found?.metadata.namespace} status={found ? objectStatus(found) : t("missing")} created={found?.metadata.creationTimestamp} />
            </li>
          ))}
          <Branch cluster={cluster} node={relations.tree} depth={relations.owners.length} isCurrent />
        </ul>
      </section>
      <section class="card">
        <h2>{t("related")}</h2>
        {named.length === 0 && relations.related.length === 0 && <p class="muted">{t("none")}</p>}
        {named.length > 0 && <><h3>{t("refersTo")}</h3><ul class="tree">{named.map((reference) => <ReferenceLabel key={`${reference.name}/${reference.object}`} cluster={cluster} kinds={kinds} reference={reference} />)}</ul></>}
        {relations.related.length > 0 && (
          <><h3>{t("relatedBy")}</h3><ul class="tree">{relations.related.map(({ resource: kind, object: other }) => (
            <li key={other.metadata.uid}><NodeLabel cluster={cluster} resource={kind} kind={kind.kind} name={other.metadata.name} namespace={other.metadata.namespace} status={objectStatus(other)} created={other.metadata.creationTimestamp} /></li>
          ))}</ul></>
        )}
        {relations.forbidden.length > 0 && <p class="muted">{t("forbidden", { kinds: relations.forbidden.join(", ") })}</p>}
      </section>
    </div>
  );
}

function Branch({ cluster, node, depth, isCurrent }: { cluster: string; node: TreeNode; depth: number; isCurrent?: boolean }) {
  const { metadata } = node.object;
  return (
    <>
      <li class={`depth-${Math.min(depth, 5)} ${isCurrent ? "current" : ""}`} aria-current={isCurrent ? "true" : undefined}>
        <NodeLabel cluster={cluster} resource={node.resource} kind={node.resource.kind} name={metadata.name} namespace={metadata.namespace} status={objectStatus(node.object)} created={metadata.creationTimestamp} />
      </li>
      {node.children.map((child) => <Branch key={child.object.metadata.uid} cluster={cluster} node={child} depth={depth + 1} />)}
    </>
  );
}

interface NodeLabelProps {
  readonly cluster: string;
  readonly resource: Resource | undefined;
  readonly kind: string;
  readonly name: string;
  readonly namespace: string | undefined;
  readonly status: string;
  readonly created: string | undefined;
}

function NodeLabel({ cluster, resource, kind, name, namespace, status, created }: NodeLabelProps) {
  return (
    <>
      <span class="muted">{kind}</span> {resource ? <a href={objectHref(cluster, resource, resource.namespaced ? namespace : undefined, name)}>{name}</a> : name}
      {status && <Status text={status} />}
      {created && <span class="muted"><Age timestamp={created} /></span>}
    </>
  );
}

function ReferenceLabel({ cluster, kinds, reference }: { cluster: string; kinds: ResourceCatalog; reference: Reference }) {
  const resource = kinds.find(reference.name, reference.group);
  return (
    <li>
      <span class="muted">{resource?.kind ?? reference.name}</span> {resource ? <a href={objectHref(cluster, resource, reference.namespace, reference.object)}>{reference.object}</a> : reference.object}
      <code class="muted">{reference.field}</code>
    </li>
  );
}

async function loadRelations(cluster: string, kinds: ResourceCatalog, resource: Resource, object: KubernetesObject): Promise<Relations> {
  const lists = new ListCache(cluster);
  const [owners, tree, related] = await Promise.all([loadOwners(cluster, kinds, object), loadTree(lists, kinds, resource, object, DEPTH), loadRelated(lists, kinds, resource, object)]);
  return { owners, tree, related, forbidden: [...lists.forbidden] };
}

async function loadOwners(cluster: string, kinds: ResourceCatalog, object: KubernetesObject): Promise<Relations["owners"]> {
  const owners: Relations["owners"][number][] = [];
  let current: KubernetesObject | null = object;
  while (current && owners.length < 8) {
    const all: readonly OwnerReference[] = current.metadata.ownerReferences ?? [];
    const owner = all.find((candidate) => candidate.controller) ?? all[0];
    if (!owner) break;
    const resource = kinds.byKind(owner.apiVersion, owner.kind);
    const namespace: string | undefined = current.metadata.namespace;
    const found: KubernetesObject | null = resource ? await clusterClient(cluster).k8s<KubernetesObject>(objectPath(resource, namespace, owner.name)).catch(() => null) : null;
    owners.push({ resource, owner, object: found });
    current = found;
  }
  return owners;
}

async function loadTree(lists: ListCache, kinds: ResourceCatalog, resource: Resource, object: KubernetesObject, depth: number): Promise<TreeNode> {
  if (depth === 0) return { resource, object, children: [] };
  const owned = await Promise.all(ownedKinds(resource).map(async ([name, group]) => {
    const kind = kinds.find(name, group);
    if (!kind || (kind.namespaced && !object.metadata.namespace)) return [];
    const items = await lists.load(kind, object.metadata.namespace);
    return items.filter((item) => item.metadata.ownerReferences?.some((owner) => owner.uid === object.metadata.uid)).map((item) => ({ kind, item }));
  }));
  const children = await Promise.all(owned.flat().map(({ kind, item }) => loadTree(lists, kinds, kind, item, depth - 1)));
  return { resource, object, children };
}

async function loadRelated(lists: ListCache, kinds: ResourceCatalog, resource: Resource, object: KubernetesObject): Promise<Relations["related"]> {
  const found = await Promise.all((SELECTED_BY[resource.name] ?? []).map(async ([name, group]) => {
    const kind = kinds.find(name, group);
    if (!kind) return [];
    const items = resource.name === "nodes"
      ? await lists.load(kind, undefined, `spec.nodeName=${object.metadata.name}`)
      : await lists.load(kind, object.metadata.namespace);
    return items.filter((item) => isRelated(resource, object, kind, item)).map((item) => ({ resource: kind, object: item }));
  }));
  return found.flat();
}

/** Each list is loaded once, however many branches of the tree need it. */
class ListCache {
  readonly forbidden = new Set<string>();
  private readonly cluster: string;
  private readonly lists = new Map<string, Promise<readonly KubernetesObject[]>>();

  constructor(cluster: string) {
    this.cluster = cluster;
  }

  load(resource: Resource, namespace: string | undefined, fieldSelector = ""): Promise<readonly KubernetesObject[]> {
    const path = `${listPath(resource, namespace)}?limit=${LIMIT}${fieldSelector ? `&fieldSelector=${encodeURIComponent(fieldSelector)}` : ""}`;
    let items = this.lists.get(path);
    if (!items) {
      items = clusterClient(this.cluster).k8s<ObjectList>(path).then((list) => list.items ?? [], (error: unknown) => {
        if (asApiError(error).code === 403) this.forbidden.add(resource.kind);
        return [];
      });
      this.lists.set(path, items);
    }
    return items;
  }
}
