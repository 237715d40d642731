/** The frame around every view: navigation, cluster and namespace, connection, palette, theme, language, the person. */
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Button, Dialog, Icon, Select } from "../components";
import { views, type View } from "../views";
import { Banner } from "./Banner";
import { catalog, language, LANGUAGES, setLanguage, type Language } from "./i18n";
import { isListAddress, namespace } from "./namespace";
import { Notices } from "./Notices";
import { discovery, listHref, listPath, rediscover, type Resource, routeName, type Section, SECTIONS } from "./resources";
import { href, location, navigate, setQuery } from "./router";
import { hasFeature, logout, session } from "./session";
import { LeaveQuestion } from "./LeaveQuestion";
import { addShortcuts, shortcuts } from "./shortcuts";
import { useChanges, useLiveObjects } from "./stream";
import { nextTheme, setTheme, theme, THEMES, type Theme } from "./theme";

const t = catalog({
  skip: ["Skip to the content", "跳到内容"],
  navigation: ["Navigation", "导航"],
  cluster: ["Cluster", "集群"],
  namespace: ["Namespace", "Namespace"],
  allNamespaces: ["All namespaces", "所有 namespace"],
  search: ["Search or run a command", "搜索或执行命令"],
  shortcuts: ["Keyboard shortcuts", "键盘快捷键"],
  theme: ["Theme", "主题"],
  system: ["System", "跟随系统"],
  light: ["Light", "浅色"],
  dark: ["Dark", "深色"],
  language: ["Language", "语言"],
  account: ["Account and settings", "账户与设置"],
  logout: ["Log out", "退出登录"],
  groups: ["Groups", "用户组"],
  workloads: ["Workloads", "工作负载"],
  network: ["Network", "网络"],
  configuration: ["Configuration", "配置"],
  storage: ["Storage", "存储"],
  access: ["Access", "访问控制"],
  clusterSection: ["Cluster", "集群"],
  custom: ["Custom resources", "自定义资源"],
  toggleTheme: ["Change the theme", "切换主题"],
  goto: ["Go to {name}", "前往 {name}"],
  more: ["{n} more", "另外 {n} 种"],
});

const SECTION_TITLES: Readonly<Record<Section, () => string>> = {
  workloads: () => t("workloads"), network: () => t("network"), configuration: () => t("configuration"), storage: () => t("storage"),
  access: () => t("access"), cluster: () => t("clusterSection"), custom: () => t("custom"),
};

const THEME_TITLES: Readonly<Record<Theme, () => string>> = { system: () => t("system"), light: () => t("light"), dark: () => t("dark") };

/** Kinds that have a shortcut of two keys: `g p` goes to pods. */
const KIND_KEYS: readonly (readonly [keys: string, name: string, group: string])[] = [
  ["g p", "pods", ""], ["g d", "deployments", "apps"], ["g s", "services", ""], ["g n", "nodes", ""], ["g e", "events", ""],
  ["g c", "configmaps", ""], ["g j", "jobs", "batch"], ["g i", "ingresses", "networking.k8s.io"], ["g v", "persistentvolumeclaims", ""],
  ["g x", "secrets", ""], ["g t", "statefulsets", "apps"], ["g m", "namespaces", ""],
];

/** Discovery may follow a new definition a moment later. */
const SECOND_LOOK_MS = 3000;

export const isPaletteOpen = signal(false);
export const isHelpOpen = signal(false);

export interface ShellProps {
  readonly cluster: string;
  readonly view: View | null;
  readonly children: ComponentChildren;
}

export function Shell({ cluster, view, children }: ShellProps) {
  const [isDrawerOpen, setDrawerOpen] = useState(false);
  const { segments } = location.value;
  const main = useRef<HTMLElement>(null);
  const address = segments.slice(0, 5).join("/");
  useEffect(() => setDrawerOpen(false), [address]);
  const isFirst = useRef(true);
  useEffect(() => {
    // After a click in the navigation the keyboard continues in the content.
    if (!isFirst.current) main.current?.focus({ preventScroll: true });
    isFirst.current = false;
  }, [address]);
  useGlobalShortcuts(cluster);
  const definitions = discovery(cluster).value.catalog?.find("customresourcedefinitions", "apiextensions.k8s.io");
  useChanges(cluster, definitions ? listPath(definitions) : null, () => {
    void rediscover(cluster);
    window.setTimeout(() => void rediscover(cluster), SECOND_LOOK_MS);
  });
  const title = view?.title?.();
  useEffect(() => {
    if (title) document.title = `${title} · ${cluster} · Sampan`;
  }, [title, cluster]);
  return (
    <div class={`shell ${isDrawerOpen ? "drawer-open" : ""}`}>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); main.current?.focus(); }}>{t("skip")}</a>
      <header class="topbar">
        <Button class="drawer-button" icon={isDrawerOpen ? "close" : "menu"} look="quiet" label={t("navigation")} expanded={isDrawerOpen} onClick={() => setDrawerOpen(!isDrawerOpen)} />
        <a class="brand" href={href(["c", cluster, "overview"])}><Logo /><span>Sampan</span></a>
        <ClusterSelect cluster={cluster} />
        <NamespaceSelect cluster={cluster} />
        <button type="button" class="palette-button" onClick={() => { isPaletteOpen.value = true; }}>
          <Icon name="search" /><span>{t("search")}</span><kbd>Ctrl K</kbd>
        </button>
        <AccountMenu />
      </header>
      <Navigation cluster={cluster} />
      {isDrawerOpen && <div class="drawer-shade" onClick={() => setDrawerOpen(false)} />}
      <main ref={main} id="main" tabIndex={-1}>
        <Banner cluster={cluster} />
        {children}
      </main>
      <Notices />
      {isHelpOpen.value && <ShortcutHelp />}
      <LeaveQuestion />
    </div>
  );
}

function Logo() {
  return <svg width="22" height="22" viewBox="0 0 32 32" aria-hidden="true" focusable="false"><path class="logo-hull" d="M3 20h26l-4 7H8z" /><path class="logo-sail" d="M15 4v14H6zM17 7l8 11h-8z" /></svg>;
}

function useGlobalShortcuts(cluster: string): void {
  useEffect(() => addShortcuts([
    { keys: "Ctrl+k", label: () => t("search"), inFields: true, run: () => { isPaletteOpen.value = true; } },
    { keys: ":", label: () => t("search"), run: () => { isPaletteOpen.value = true; } },
    { keys: "?", label: () => t("shortcuts"), run: () => { isHelpOpen.value = true; } },
    { keys: "T", label: () => t("toggleTheme"), run: nextTheme },
    ...views.flatMap((view) => view.navigation?.shortcut && view.title && (!view.feature || hasFeature(view.feature))
      ? [{ keys: view.navigation.shortcut, label: () => t("goto", { name: view.title?.() ?? "" }), run: () => navigate(viewHref(view, cluster)) }] : []),
    ...KIND_KEYS.map(([keys, name, group]) => ({
      keys, label: () => t("goto", { name }),
      run: () => {
        const resource = discovery(cluster).peek().catalog?.find(name, group);
        if (resource) navigate(listHref(cluster, resource, { namespace: resource.namespaced ? namespace.peek() : "" }));
      },
    })),
  ]), [cluster]);
}

export function viewHref(view: View, cluster: string): string {
  return href(view.path.split("/").map((part) => (part === ":cluster" ? cluster : part)));
}

/** The view of the address in another cluster; objects differ from cluster to cluster, so details lead to their list. */
export function sameView(cluster: string): string {
  const { segments, query } = location.peek();
  const [, , view = "overview"] = segments;
  if (view.includes("~")) return href(["c", cluster, view], { label: query["label"], q: query["q"], sort: query["sort"] });
  return href(["c", cluster, ...segments.slice(2)]);
}

function ClusterSelect({ cluster }: { cluster: string }) {
  const clusters = session.value?.clusters ?? [];
  if (clusters.length < 2) return <span class="cluster-name" title={clusters[0]?.version}>{cluster}</span>;
  return <Select label={t("cluster")} hideLabel value={cluster} options={clusters.map(({ name }) => [name, name])} onChange={(name) => navigate(sameView(name))} />;
}

export function chooseNamespace(chosen: string): void {
  const { segments } = location.peek();
  // From the details of an object the choice leads to the list of its kind, whose address sets the namespace.
  if (segments.length >= 5 && segments[2]?.includes("~")) {
    navigate(href(segments.slice(0, 3), { namespace: chosen }));
    return;
  }
  namespace.value = chosen;
  if (isListAddress(segments) || segments[2] === "overview") setQuery({ namespace: chosen });
}

function NamespaceSelect({ cluster }: { cluster: string }) {
  const { objects, error } = useLiveObjects(cluster, { path: "/api/v1/namespaces" });
  const current = namespace.value;
  if (error?.code === 403) {
    return <input class="namespace-input" aria-label={t("namespace")} value={current} placeholder={t("namespace")} spellcheck={false} onChange={(event) => chooseNamespace(event.currentTarget.value.trim())} />;
  }
  const names = (objects ?? []).map((object) => object.metadata.name).sort();
  if (current && !names.includes(current)) names.unshift(current);
  return <Select label={t("namespace")} hideLabel value={current} options={[["", t("allNamespaces")], ...names.map((name) => [name, name] as const)]} onChange={chooseNamespace} />;
}

function Navigation({ cluster }: { cluster: string }) {
  const resources = discovery(cluster).value.catalog;
  const { segments } = location.value;
  const tools = views.filter((view) => view.navigation && (!view.feature || hasFeature(view.feature)));
  return (
    <nav class="navigation" aria-label={t("navigation")}>
      <ul>
        {tools.map((view) => (
          <li key={view.id}>
            <a href={viewHref(view, cluster)} aria-current={viewHref(view, cluster) === href(segments) ? "page" : undefined}>
              {view.navigation && <Icon name={view.navigation.icon} />}{view.title?.()}
            </a>
          </li>
        ))}
      </ul>
      {resources && SECTIONS.map((section) => <NavigationSection key={section} cluster={cluster} section={section} resources={resources.inSection(section)} current={segments[2] ?? ""} />)}
    </nav>
  );
}

/** Kinds at the start of each section; the others are behind the fold. */
const FOLDED_AFTER: Readonly<Record<Section, number>> = { workloads: 6, network: 3, configuration: 2, storage: 3, access: 3, cluster: 3, custom: 12 };

function NavigationSection({ cluster, section, resources, current }: { cluster: string; section: Section; resources: readonly Resource[]; current: string }) {
  if (resources.length === 0) return null;
  const shown = resources.slice(0, FOLDED_AFTER[section]);
  const folded = resources.slice(FOLDED_AFTER[section]);
  const link = (resource: Resource) => (
    <li key={routeName(resource)}>
      <a href={listHref(cluster, resource, { namespace: resource.namespaced ? namespace.value : "" })} aria-current={routeName(resource) === current ? "page" : undefined}>
        {resource.kind}
      </a>
    </li>
  );
  return (
    <section>
      <h2>{SECTION_TITLES[section]()}</h2>
      <ul>{shown.map(link)}</ul>
      {folded.length > 0 && (
        <details open={folded.some((resource) => routeName(resource) === current)}>
          <summary>{t("more", { n: folded.length })}</summary>
          <ul>{folded.map(link)}</ul>
        </details>
      )}
    </section>
  );
}

function AccountMenu() {
  const [isOpen, setOpen] = useState(false);
  const user = session.value?.user;
  return (
    <>
      <Button icon="person" look="quiet" label={t("account")} onClick={() => setOpen(true)} />
      {isOpen && (
        <Dialog title={t("account")} size="small" onClose={() => setOpen(false)}
          footer={<Button look="danger" onClick={() => { setOpen(false); logout(); }}>{t("logout")}</Button>}>
          <p class="account-name">{user?.username}</p>
          <p class="muted">{t("groups")}: {user?.groups?.join(", ") || "–"}</p>
          <Select label={t("theme")} value={theme.value} options={THEMES.map((name) => [name, THEME_TITLES[name]()])} onChange={(name) => setTheme(name as Theme)} />
          <Select label={t("language")} value={language.value} options={LANGUAGES} onChange={(name) => setLanguage(name as Language)} />
          <Button icon="keyboard" onClick={() => { setOpen(false); isHelpOpen.value = true; }}>{t("shortcuts")}</Button>
        </Dialog>
      )}
    </>
  );
}

function ShortcutHelp() {
  return (
    <Dialog title={t("shortcuts")} size="large" onClose={() => { isHelpOpen.value = false; }}>
      <dl class="shortcut-list">
        {shortcuts.value.map((shortcut) => (
          <div key={shortcut.keys}>
            <dt>{shortcut.keys.split(" ").map((key) => <kbd key={key}>{key}</kbd>)}</dt>
            <dd>{shortcut.label()}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
