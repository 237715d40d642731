/** A layered layout: a column for each layer, rows in the order that crosses few edges. */

export interface LayoutEdge {
  readonly from: string;
  readonly to: string;
}

export interface Placement {
  readonly x: number;
  readonly y: number;
}

export interface LayoutOptions {
  readonly columnWidth: number;
  readonly rowHeight: number;
}

export interface Layout {
  readonly places: ReadonlyMap<string, Placement>;
  readonly width: number;
  readonly height: number;
  readonly columns: readonly number[];
}

const SWEEPS = 6;

/** `layers` are the nodes of each layer; empty layers take no room. */
export function layout(layers: readonly (readonly string[])[], edges: readonly LayoutEdge[], options: LayoutOptions): Layout {
  const used = layers.map((nodes, index) => ({ nodes: [...nodes], index })).filter((layer) => layer.nodes.length > 0);
  const neighbours = new Map<string, string[]>();
  for (const { from, to } of edges) {
    neighbours.set(from, [...(neighbours.get(from) ?? []), to]);
    neighbours.set(to, [...(neighbours.get(to) ?? []), from]);
  }
  const position = new Map<string, number>();
  const place = (nodes: readonly string[]): void => nodes.forEach((node, row) => position.set(node, nodes.length > 1 ? row / (nodes.length - 1) : 0.5));
  used.forEach((layer) => place(layer.nodes));
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    for (const layer of sweep % 2 ? used.toReversed() : used) {
      const own = new Set(layer.nodes);
      const barycentre = (node: string): number => {
        const others = (neighbours.get(node) ?? []).filter((other) => !own.has(other) && position.has(other));
        if (!others.length) return position.get(node) ?? 0;
        return others.reduce((sum, other) => sum + (position.get(other) ?? 0), 0) / others.length;
      };
      const weights = new Map(layer.nodes.map((node) => [node, barycentre(node)]));
      layer.nodes.sort((a, b) => (weights.get(a) ?? 0) - (weights.get(b) ?? 0) || (a < b ? -1 : 1));
      place(layer.nodes);
    }
  }
  const most = Math.max(1, ...used.map((layer) => layer.nodes.length));
  const height = most * options.rowHeight;
  const places = new Map<string, Placement>();
  used.forEach((layer, column) => {
    const step = height / layer.nodes.length;
    layer.nodes.forEach((node, row) => places.set(node, { x: column * options.columnWidth, y: (row + 0.5) * step - options.rowHeight / 2 }));
  });
  return { places, width: used.length * options.columnWidth, height, columns: used.map((layer) => layer.index) };
}

/** How many pairs of edges cross between neighbouring columns; for tests and comparisons. */
export function crossings(places: ReadonlyMap<string, Placement>, edges: readonly LayoutEdge[]): number {
  const lines = edges.flatMap(({ from, to }) => {
    const start = places.get(from);
    const end = places.get(to);
    return start && end ? [[start, end] as const] : [];
  });
  let count = 0;
  for (let a = 0; a < lines.length; a += 1) {
    for (let b = a + 1; b < lines.length; b += 1) {
      const [p, q] = [lines[a]!, lines[b]!];
      if (p[0].x === q[0].x && p[1].x === q[1].x && (p[0].y - q[0].y) * (p[1].y - q[1].y) < 0) count += 1;
    }
  }
  return count;
}
