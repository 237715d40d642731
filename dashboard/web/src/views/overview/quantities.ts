/** Amounts of resources, as people write them. */
export function formatBytes(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${trim(value)} ${units[unit] ?? ""}`;
}

export function formatAmount(name: "cpu" | "memory" | "pods", value: number): string {
  if (name === "memory") return formatBytes(value);
  if (name === "cpu" && value > 0 && value < 1) return `${Math.round(value * 1000)}m`;
  return trim(value);
}

function trim(value: number): string {
  return value >= 100 || Number.isInteger(value) ? String(Math.round(value)) : value.toFixed(1).replace(/\.0$/, "");
}

const FACTORS: Readonly<Record<string, number>> = {
  n: 1e-9, u: 1e-6, m: 1e-3, "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18,
  Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60,
};

/** A Kubernetes quantity such as `100m`, `2Gi` or `1e3`, as a number; undefined if it is none. */
export function parseQuantity(text: string): number | undefined {
  const match = /^([+-]?[\d.]+(?:[eE][+-]?\d+)?)(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$/.exec(text.trim());
  const factor = FACTORS[match?.[2] ?? ""];
  const number = Number(match?.[1]);
  return match && factor !== undefined && !Number.isNaN(number) ? number * factor : undefined;
}
