/** A chart of lines over time in SVG. Its label says the newest values, for those who do not see it. */
import { useEffect, useRef, useState } from "preact/hooks";
import { linePath, type Series, ticks } from "./series";
import "./charts.css";

const HEIGHT = 150;
const LEFT = 64;
const BOTTOM = 18;
const COLOURS = 8;

interface ChartProps {
  readonly title: string;
  readonly series: readonly Series[];
  readonly format: (value: number) => string;
  readonly base?: number;
  /** A horizontal line, such as a limit. */
  readonly limit?: number | undefined;
  readonly limitLabel?: string;
}

export function Chart({ title, series, format, base = 10, limit, limitLabel }: ChartProps) {
  const frame = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(480);
  useEffect(() => {
    const element = frame.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(() => setWidth(Math.max(160, element.clientWidth)));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const points = series.flatMap((item) => item.points);
  const end = Math.max(...points.map((point) => point.time), 0);
  const start = Math.min(...points.map((point) => point.time), end - 60_000);
  const values = ticks(Math.max(...points.map((point) => point.value), limit ?? 0), base);
  const most = values[values.length - 1]!;
  const scale = { start, end, most, width: width - LEFT, height: HEIGHT - BOTTOM };
  const newest = series.map((item) => `${item.name} ${format(item.points[item.points.length - 1]?.value ?? 0)}`);
  const y = (value: number): number => scale.height - (value / most) * scale.height;
  const times = width > 340 ? [start, (start + end) / 2, end] : [start, end];
  return (
    <figure class="chart">
      <figcaption>{title}</figcaption>
      <div ref={frame}>
        <svg width={width} height={HEIGHT + 8} role="img" aria-label={`${title}: ${newest.join(", ")}`}>
          <g transform={`translate(${LEFT} 6)`}>
            {values.map((value) => (
              <g key={value}>
                <line class="chart-grid" x1={0} x2={scale.width} y1={y(value)} y2={y(value)} />
                <text class="chart-tick" x={-8} y={y(value)} text-anchor="end" dominant-baseline="middle">{format(value)}</text>
              </g>
            ))}
            {times.map((time, index) => (
              <text key={index} class="chart-tick" x={((time - start) / Math.max(1, end - start)) * scale.width} y={HEIGHT - 2} text-anchor={index === 0 ? "start" : index === times.length - 1 ? "end" : "middle"}>
                {new Date(time).toLocaleTimeString(undefined, { hour12: false })}
              </text>
            ))}
            {limit !== undefined && limit > 0 && <line class="chart-limit" x1={0} x2={scale.width} y1={y(limit)} y2={y(limit)}><title>{limitLabel}</title></line>}
            {series.map((item, index) => (
              <g key={item.name} class={`chart-series c${index % COLOURS}`}>
                <path d={linePath(item.points, scale)} />
                {item.points.length === 1 && <circle r={3} cx={scale.width} cy={y(item.points[0]!.value)} />}
              </g>
            ))}
          </g>
        </svg>
      </div>
      <ul class="chart-legend">
        {series.slice(0, 12).map((item, index) => (
          <li key={item.name}><span class={`chart-mark c${index % COLOURS}`} aria-hidden="true" />{item.name} <strong>{format(item.points[item.points.length - 1]?.value ?? 0)}</strong></li>
        ))}
        {series.length > 12 && <li class="muted">+{series.length - 12}</li>}
        {limit !== undefined && limit > 0 && <li><span class="chart-mark limit" aria-hidden="true" />{limitLabel} <strong>{format(limit)}</strong></li>}
      </ul>
    </figure>
  );
}
