/** The scheduling decision as a matrix of nodes and plugins. */

export interface Explanation {
  readonly scheduler: string;
  readonly time: number;
  readonly node?: string;
  readonly isFamiliar?: boolean;
  readonly decision?: { readonly time: number; readonly attempt: number; readonly node?: string; readonly message?: string; readonly nominated?: string } | null;
  readonly waiting?: { readonly queue: string; readonly since: number; readonly plugins?: readonly string[]; readonly gate?: string } | null;
  readonly gate?: string;
  readonly message?: string;
  readonly best?: string;
  readonly count?: number;
  readonly feasible?: number;
  readonly filters?: readonly string[];
  readonly skipped?: readonly string[];
  readonly nodes?: readonly NodeReport[];
  readonly notes?: readonly string[];
}

export interface NodeReport {
  readonly name: string;
  readonly fits: boolean;
  readonly refusals?: readonly { readonly plugin: string; readonly reasons: readonly string[]; readonly isFinal?: boolean }[];
  readonly scores?: readonly { readonly plugin: string; readonly score: number; readonly weight: number }[];
  readonly total?: number;
}

export interface Why {
  readonly pod?: string;
  readonly state?: string;
  readonly lacks?: readonly string[];
  readonly scheduling?: Explanation | null;
}

export interface FilterCell {
  readonly isRejected: boolean;
  readonly reasons: readonly string[];
  /** Preemption on the node would not help. */
  readonly isFinal: boolean;
}

export interface ScoreColumn {
  readonly plugin: string;
  readonly weight: number;
  /** All nodes have the same score, so that the plugin decides nothing. */
  readonly isSame: boolean;
  readonly most: number;
}

export interface MatrixRow {
  readonly node: string;
  readonly fits: boolean;
  readonly isBound: boolean;
  readonly isBest: boolean;
  readonly filters: readonly FilterCell[];
  /** Weighted scores by column; null where the node was not scored. */
  readonly scores: readonly (number | null)[];
  readonly total: number;
}

export interface Matrix {
  readonly filters: readonly string[];
  readonly scores: readonly ScoreColumn[];
  readonly rows: readonly MatrixRow[];
}

export function matrix(explanation: Explanation, showsAll = false): Matrix {
  const nodes = explanation.nodes ?? [];
  const rejecting = new Set(nodes.flatMap((node) => (node.refusals ?? []).map((refusal) => refusal.plugin)));
  const named = [...(explanation.filters ?? []), ...[...rejecting].filter((plugin) => !explanation.filters?.includes(plugin))];
  const filters = showsAll ? named : named.filter((plugin) => rejecting.has(plugin));
  const weights = new Map(nodes.flatMap((node) => (node.scores ?? []).map((score) => [score.plugin, score.weight] as const)));
  const columns = [...weights].map(([plugin, weight]): ScoreColumn => {
    const values = nodes.flatMap((node) => node.scores?.find((score) => score.plugin === plugin)?.score ?? []);
    return { plugin, weight, isSame: new Set(values).size <= 1, most: Math.max(0, ...values) * weight };
  });
  const scores = showsAll ? columns : columns.filter((column) => !column.isSame);
  const rows = nodes.map((node): MatrixRow => ({
    node: node.name,
    fits: node.fits,
    isBound: node.name === explanation.node,
    isBest: node.name === explanation.best,
    filters: filters.map((plugin) => {
      const refusal = node.refusals?.find((item) => item.plugin === plugin);
      return { isRejected: refusal !== undefined, reasons: refusal?.reasons ?? [], isFinal: refusal?.isFinal ?? false };
    }),
    scores: scores.map((column) => {
      const score = node.scores?.find((item) => item.plugin === column.plugin);
      return score ? score.score * score.weight : null;
    }),
    total: node.total ?? 0,
  }));
  const order = rows.toSorted((a, b) => Number(b.isBound) - Number(a.isBound) || Number(b.fits) - Number(a.fits) || b.total - a.total || (a.node < b.node ? -1 : 1));
  return { filters, scores, rows: order };
}
