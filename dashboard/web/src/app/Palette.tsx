/** The command palette: kinds, views, objects by name, and settings, from the keyboard. */
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { views } from "../views";
import { cluster as clusterClient } from "./http";
import { catalog, LANGUAGES, setLanguage } from "./i18n";
import type { ObjectList } from "./kubernetes";
import { namespace } from "./namespace";
import { discovery, listHref, listPath, objectHref, routeName, sectionOf, sectionRank, SECTIONS, type Resource } from "./resources";
import { href, navigate } from "./router";
import { hasFeature, logout, session } from "./session";
import { chooseNamespace, isHelpOpen, sameView, viewHref } from "./Shell";
import { shortcuts } from "./shortcuts";
import { setTheme } from "./theme";

const t = catalog({
  label: ["Command palette", "命令面板"],
  placeholder: ["Kind, object or command", "输入类型、对象或命令"],
  kind: ["Kind", "类型"],
  view: ["View", "视图"],
  object: ["Object", "对象"],
  command: ["Command", "命令"],
  namespaceWord: ["Namespace", "Namespace"],
  dark: ["Dark theme", "深色主题"],
  light: ["Light theme", "浅色主题"],
  system: ["Theme of the system", "跟随系统主题"],
  shortcuts: ["Keyboard shortcuts", "键盘快捷键"],
  logout: ["Log out", "退出登录"],
  create: ["Create {kind}", "创建 {kind}"],
  here: ["On this page", "当前页面"],
  switchCluster: ["Cluster {name}", "集群 {name}"],
  nothing: ["Nothing matches", "没有匹配项"],
  results: ["{n} {n|result|results}", "{n} 个结果"],
});

export interface Entry {
  readonly id: string;
  readonly title: string;
  readonly words: string;
  readonly type: string;
  readonly run: () => void;
}

/** Higher is better; 0 does not match. Short names and prefixes come first, letters in order come last. */
export function matchScore(query: string, entry: Pick<Entry, "title" | "words">): number {
  const wanted = query.toLowerCase();
  const title = entry.title.toLowerCase();
  if (!wanted) return 1;
  if (title === wanted || entry.words.toLowerCase().split(" ").includes(wanted)) return 100;
  if (title.startsWith(wanted)) return 80;
  if (title.includes(wanted)) return 60;
  if (entry.words.toLowerCase().includes(wanted)) return 40;
  let index = 0;
  for (const letter of title) if (letter === wanted[index]) index++;
  return index === wanted.length ? 20 : 0;
}

/** Kinds whose objects the palette searches by name. */
const SEARCHED: readonly (readonly [name: string, group: string])[] = [["pods", ""], ["deployments", "apps"], ["statefulsets", "apps"], ["services", ""], ["nodes", ""], ["configmaps", ""], ["namespaces", ""]];
const SEARCH_LIMIT = 500;
const SHOWN = 50;

export default function Palette({ cluster, onClose }: { cluster: string; onClose: () => void }) {
  const [query, setQuery] = useState("");
  const [active, setActive] = useState(0);
  const dialog = useRef<HTMLDialogElement>(null);
  const resources = discovery(cluster).value.catalog;
  const objects = useObjects(cluster);
  // Before the browser handles the next key, which belongs to the palette and not to the page below.
  useLayoutEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    return () => { if (before instanceof HTMLElement) before.focus(); };
  }, []);
  const entries = useMemo(() => [...pageEntries(), ...viewEntries(cluster), ...kindEntries(cluster, resources?.all ?? []), ...createEntries(cluster, resources?.all ?? []), ...commandEntries(), ...objects], [cluster, resources, objects]);
  const matches = useMemo(() => entries.map((entry) => ({ entry, score: matchScore(query, entry) })).filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score).slice(0, SHOWN).map(({ entry }) => entry), [entries, query]);
  const run = (entry: Entry | undefined): void => {
    if (!entry) return;
    onClose();
    entry.run();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step) {
      event.preventDefault();
      setActive((active + step + matches.length) % Math.max(1, matches.length));
    } else if (event.key === "Enter") {
      event.preventDefault();
      run(matches[active]);
    }
  };
  useEffect(() => {
    document.getElementById(`palette-${active}`)?.scrollIntoView({ block: "nearest" });
  }, [active]);
  return (
    <dialog ref={dialog} class="dialog palette" aria-label={t("label")} onCancel={(event) => { event.preventDefault(); onClose(); }}
      onMouseDown={(event) => { if (event.target === dialog.current) onClose(); }}>
      <input role="combobox" aria-expanded="true" aria-controls="palette-list" aria-activedescendant={matches.length ? `palette-${active}` : undefined}
        aria-label={t("placeholder")} placeholder={t("placeholder")} value={query} spellcheck={false} autocomplete="off"
        onInput={(event) => { setQuery(event.currentTarget.value); setActive(0); }} onKeyDown={onKeyDown} />
      <ul id="palette-list" role="listbox" aria-label={t("label")}>
        {matches.map((entry, index) => (
          <li key={entry.id} id={`palette-${index}`} role="option" aria-selected={index === active} onClick={() => run(entry)} onMouseMove={() => { if (index !== active) setActive(index); }}>
            <span>{entry.title}</span><span class="muted">{entry.type}</span>
          </li>
        ))}
      </ul>
      <p class={matches.length ? "visually-hidden" : "palette-empty muted"} role="status">{matches.length ? t("results", { n: matches.length }) : t("nothing")}</p>
    </dialog>
  );
}

function kindEntries(cluster: string, resources: readonly Resource[]): Entry[] {
  const place = (resource: Resource): number => SECTIONS.indexOf(sectionOf(resource)) * 2000 + sectionRank(resource);
  return resources.filter((resource) => resource.verbs.includes("list")).toSorted((a, b) => place(a) - place(b)).map((resource) => ({
    id: `kind/${resource.group}/${resource.name}`,
    title: resource.kind,
    words: [resource.name, ...resource.shortNames, resource.group].join(" "),
    type: resource.group ? `${t("kind")} · ${resource.group}` : t("kind"),
    run: () => navigate(listHref(cluster, resource, { namespace: resource.namespaced ? namespace.peek() : "" })),
  }));
}

/** What the view under the palette offers by key: its actions, tabs and steps. */
function pageEntries(): Entry[] {
  return shortcuts.peek().filter(({ keys }) => !isGlobal(keys)).map(({ keys, label, run }) => ({ id: `page/${keys}`, title: label(), words: keys, type: `${t("here")} · ${keys}`, run }));
}

/** Keys of the frame itself, which the palette has as views, kinds and commands. */
function isGlobal(keys: string): boolean {
  return keys.startsWith("g ") || ["Ctrl+k", ":", "?", "T", "j", "k", "ArrowDown", "ArrowUp", "Home", "End", "Escape", "Enter", "Space"].includes(keys);
}

function createEntries(cluster: string, resources: readonly Resource[]): Entry[] {
  return resources.filter((resource) => resource.verbs.includes("create") && resource.verbs.includes("list")).map((resource) => ({
    id: `create/${routeName(resource)}`,
    title: t("create", { kind: resource.kind }),
    words: ["create", "new", resource.name, ...resource.shortNames].join(" "),
    type: t("command"),
    run: () => navigate(href(["c", cluster, "create", routeName(resource)], { namespace: resource.namespaced ? namespace.peek() : "" })),
  }));
}

function viewEntries(cluster: string): Entry[] {
  return views.filter((view) => view.navigation && view.title && (!view.feature || hasFeature(view.feature)))
    .map((view) => ({ id: `view/${view.id}`, title: view.title?.() ?? "", words: view.id, type: t("view"), run: () => navigate(viewHref(view, cluster)) }));
}

function commandEntries(): Entry[] {
  const command = (id: string, title: string, run: () => void): Entry => ({ id: `command/${id}`, title, words: id, type: t("command"), run });
  const clusters = session.peek()?.clusters ?? [];
  return [
    command("theme-dark", t("dark"), () => setTheme("dark")),
    command("theme-light", t("light"), () => setTheme("light")),
    command("theme-system", t("system"), () => setTheme("system")),
    ...LANGUAGES.map(([tag, name]) => command(`language-${tag}`, name, () => setLanguage(tag))),
    ...(clusters.length > 1 ? clusters.map(({ name }) => command(`cluster-${name}`, t("switchCluster", { name }), () => navigate(sameView(name)))) : []),
    command("shortcuts", t("shortcuts"), () => { isHelpOpen.value = true; }),
    command("logout", t("logout"), () => logout()),
  ];
}

/** Objects of the common kinds, as far as the person may list them, once per opening of the palette. */
function useObjects(cluster: string): readonly Entry[] {
  const [objects, setObjects] = useState<readonly Entry[]>([]);
  const resources = discovery(cluster).value.catalog;
  useEffect(() => {
    const abort = new AbortController();
    const headers = { Accept: "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1" };
    for (const [name, group] of SEARCHED) {
      const resource = resources?.find(name, group);
      if (!resource) continue;
      clusterClient(cluster).k8s<ObjectList>(`${listPath(resource, namespace.peek())}?limit=${SEARCH_LIMIT}`, { headers, signal: abort.signal }).then((found) => {
        const entries = (found.items ?? []).map(({ metadata }): Entry => (name === "namespaces" ? {
          id: `namespace/${metadata.name}`, title: metadata.name, words: "namespace ns", type: t("namespaceWord"), run: () => chooseNamespace(metadata.name),
        } : {
          id: `object/${name}/${metadata.namespace ?? ""}/${metadata.name}`,
          title: metadata.name,
          words: metadata.namespace ?? "",
          type: [resource.kind, metadata.namespace].filter(Boolean).join(" · "),
          run: () => navigate(objectHref(cluster, resource, metadata.namespace, metadata.name)),
        }));
        setObjects((before) => [...before, ...entries]);
      }, () => undefined); // Kinds that may not be listed are left out.
    }
    return () => abort.abort();
  }, [cluster, resources]);
  return objects;
}
