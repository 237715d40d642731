/** Client-side routes: every view has a real path below `/ui/`, and the query carries its filters. */
import { signal } from "@preact/signals";
import { askToLeave, hasUnsaved } from "./unsaved";

export const BASE = "/ui/";

export type Query = Readonly<Record<string, string>>;

export interface Location {
  /** Path segments below `/ui/`, decoded. */
  readonly segments: readonly string[];
  readonly query: Query;
}

export function parseLocation(pathname: string, search: string): Location {
  const path = pathname.startsWith(BASE) ? pathname.slice(BASE.length) : pathname.replace(/^\/(ui)?/, "");
  const segments = path.split("/").filter((part) => part !== "").map(decodeSegment);
  return { segments, query: Object.fromEntries(new URLSearchParams(search)) };
}

function decodeSegment(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The address of a view; empty values are left out of the query. */
export function href(segments: readonly string[], query: Readonly<Record<string, string | undefined>> = {}): string {
  const pairs = Object.entries(query).filter((pair): pair is [string, string] => Boolean(pair[1]));
  const search = new URLSearchParams(pairs).toString();
  return BASE + segments.map(encodeURIComponent).join("/") + (search ? `?${search}` : "");
}

export const location = signal<Location>(parseLocation(window.location.pathname, window.location.search));

/** The path that is shown, and its place in the history of the tab: the browser changes the address before it says so. */
let shownPath = window.location.pathname;
let shownAddress = window.location.pathname + window.location.search;
let place = 0;
/** Whether the next step through the history restores or leaves the page after a question, and needs none. */
let isStepExpected = false;

function readAddress(): void {
  shownPath = window.location.pathname;
  shownAddress = window.location.pathname + window.location.search;
  location.value = parseLocation(window.location.pathname, window.location.search);
}

/** Goes to an address of the page. If that leaves unsaved text, the person is asked first. */
export function navigate(address: string, options: { replace?: boolean } = {}): void {
  const go = (): void => {
    if (options.replace) history.replaceState({ place }, "", address);
    else history.pushState({ place: ++place }, "", address);
    readAddress();
    if (!options.replace) window.scrollTo(0, 0);
  };
  if (new URL(address, window.location.href).pathname === shownPath) go();
  else askToLeave(go);
}

/** Changes some values of the query and keeps the others; an empty value removes its key. */
export function setQuery(changes: Readonly<Record<string, string | undefined>>): void {
  const { segments, query } = location.peek();
  navigate(href(segments, { ...query, ...changes }), { replace: true });
}

/** Follows links inside the page without a reload. Modified clicks stay the browser's. */
function followLink(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  if (!link || link.target || link.hasAttribute("download") || link.origin !== window.location.origin) return;
  if (!link.pathname.startsWith(BASE) || link.pathname.startsWith(`${BASE}api/`)) return;
  if (link.hash && link.pathname === window.location.pathname) return;
  event.preventDefault();
  navigate(link.pathname + link.search);
}

/** Back and forward: the browser has changed the address already, which is undone while the person is asked. */
function followHistory(event: PopStateEvent): void {
  const target = (event.state as { readonly place?: number } | null)?.place ?? 0;
  const steps = target - place;
  if (isStepExpected || !hasUnsaved() || window.location.pathname === shownPath) {
    isStepExpected = false;
    place = target;
    readAddress();
    return;
  }
  if (steps === 0) {
    const address = window.location.pathname + window.location.search;
    history.replaceState({ place }, "", shownAddress);
    navigate(address);
    return;
  }
  isStepExpected = true;
  place = target;
  history.go(-steps);
  askToLeave(() => {
    isStepExpected = true;
    history.go(steps);
  });
}

export function startRouter(): void {
  place = (history.state as { readonly place?: number } | null)?.place ?? 0;
  window.addEventListener("popstate", followHistory);
  document.addEventListener("click", followLink);
}
