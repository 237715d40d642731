/** Series of measurements: quantities, rates of counters, ticks of axes, and paths of lines. */

export interface Point {
  /** Milliseconds since the epoch. */
  readonly time: number;
  readonly value: number;
}

export interface Series {
  readonly name: string;
  readonly points: readonly Point[];
}

const SUFFIXES: Readonly<Record<string, number>> = {
  n: 1e-9, u: 1e-6, m: 1e-3, "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18,
  Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60,
};

/** `250m` is 0.25, `128Mi` 134217728; NaN for what is no quantity. */
export function parseQuantity(text: string): number {
  const match = /^([+-]?\d*\.?\d+(?:[eE][+-]?\d+)?)([numkKMGTPE]?i?)$/.exec(text.trim());
  const factor = match ? SUFFIXES[match[2] ?? ""] : undefined;
  return match && factor !== undefined ? Number(match[1]) * factor : Number.NaN;
}

/** Keeps the newest points of one series. */
export function appended(points: readonly Point[], point: Point, most: number): readonly Point[] {
  const last = points[points.length - 1];
  if (last && point.time <= last.time) return points;
  return [...points, point].slice(-most);
}

/** The change per second of a counter; a counter that falls was reset. */
export function rates(points: readonly Point[]): Point[] {
  const result: Point[] = [];
  for (let index = 1; index < points.length; index += 1) {
    const before = points[index - 1]!;
    const after = points[index]!;
    const seconds = (after.time - before.time) / 1000;
    const change = after.value >= before.value ? after.value - before.value : after.value;
    if (seconds > 0) result.push({ time: after.time, value: change / seconds });
  }
  return result;
}

/** Round values from 0 to at least `most`; `base` is 1024 for bytes. */
export function ticks(most: number, base = 10, count = 4): number[] {
  if (!(most > 0)) return [0, 1];
  const rough = most / count;
  const power = base === 1024 ? 1024 ** Math.floor(Math.log(rough) / Math.log(1024)) : 10 ** Math.floor(Math.log10(rough));
  const steps = base === 1024 ? [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024] : [1, 2, 2.5, 5, 10];
  const step = power * (steps.find((item) => item * power >= rough) ?? steps[steps.length - 1]!);
  const values: number[] = [];
  for (let value = 0; values.length === 0 || values[values.length - 1]! < most; value += step) values.push(Number(value.toPrecision(12)));
  return values;
}

export interface Scale {
  readonly start: number;
  readonly end: number;
  readonly most: number;
  readonly width: number;
  readonly height: number;
}

export function linePath(points: readonly Point[], scale: Scale): string {
  const span = Math.max(1, scale.end - scale.start);
  return points
    .map((point, index) => {
      const x = ((point.time - scale.start) / span) * scale.width;
      const y = scale.height - (point.value / scale.most) * scale.height;
      return `${index ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
    })
    .join("");
}

export function formatCores(cores: number): string {
  if (cores === 0) return "0";
  return cores < 1 ? `${(cores * 1000).toFixed(cores < 0.01 ? 1 : 0)}m` : cores.toFixed(cores < 10 ? 2 : 0);
}
