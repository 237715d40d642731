/** Client-side routes: every view has a real path below `/ui/`, and the query carries its filters. */
import { signal } from "@preact/signals";

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

function readAddress(): void {
  location.value = parseLocation(window.location.pathname, window.location.search);
}

export function navigate(address: string, options: { replace?: boolean } = {}): void {
  if (options.replace) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  readAddress();
  if (!options.replace) window.scrollTo(0, 0);
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

export function startRouter(): void {
  window.addEventListener("popstate", readAddress);
  document.addEventListener("click", followLink);
}
