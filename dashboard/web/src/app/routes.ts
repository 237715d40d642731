/** Finds the view for an address. */
import type { Params, View } from "../views";

export interface Match {
  readonly view: View;
  readonly params: Params;
}

export function matchPath(path: string, segments: readonly string[]): Params | null {
  const parts = path.split("/");
  if (parts.length !== segments.length) return null;
  const params: Record<string, string> = {};
  for (const [index, part] of parts.entries()) {
    const segment = segments[index] ?? "";
    if (part.startsWith(":")) params[part.slice(1)] = segment;
    else if (part !== segment) return null;
  }
  return params;
}

export function findView(views: readonly View[], segments: readonly string[]): Match | null {
  for (const view of views) {
    const params = matchPath(view.path, segments);
    if (params) return { view, params };
  }
  return null;
}
