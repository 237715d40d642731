/** Log lines in a window: only the lines in view are in the document. Stays at the end while it is at the end. */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { catalog } from "../../app/i18n";
import type { LogLine, LogSource } from "./lines";

const t = catalog({
  label: ["Log lines", "日志"],
  end: ["To the end", "到末尾"],
});

const LINE_HEIGHT = 20;
const MARGIN = 20;
const COLOURS = 8;

interface LogLinesProps {
  readonly lines: readonly LogLine[];
  readonly sources: readonly LogSource[];
  readonly showTimes: boolean;
  readonly isWrapped: boolean;
  readonly search: string;
}

export function LogLines({ lines, sources, showTimes, isWrapped, search }: LogLinesProps) {
  const viewport = useRef<HTMLDivElement>(null);
  const [place, setPlace] = useState({ top: 0, height: 600 });
  const [isAtEnd, setAtEnd] = useState(true);
  const several = sources.length > 1;

  useEffect(() => {
    const element = viewport.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(() => setPlace((before) => ({ ...before, height: element.clientHeight })));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    const element = viewport.current;
    if (element && isAtEnd) element.scrollTop = element.scrollHeight;
  }, [lines, isAtEnd, lines.length, place.height, isWrapped]);

  const onScroll = (event: { currentTarget: HTMLDivElement }) => {
    const { scrollTop, clientHeight, scrollHeight } = event.currentTarget;
    setAtEnd(scrollHeight - scrollTop - clientHeight < LINE_HEIGHT * 2);
    setPlace({ top: scrollTop, height: clientHeight });
  };
  // Wrapped lines have different heights: then the newest lines are drawn whole, as many as fit some screens.
  const first = isWrapped ? Math.max(0, lines.length - 1000) : Math.max(0, Math.floor(place.top / LINE_HEIGHT) - MARGIN);
  const last = isWrapped ? lines.length : Math.min(lines.length, Math.ceil((place.top + place.height) / LINE_HEIGHT) + MARGIN);
  const shown = lines.slice(first, last);

  return (
    <div class="log-frame">
      <div ref={viewport} class={`log-lines ${isWrapped ? "wrapped" : ""}`} tabIndex={0} role="log" aria-live="off" aria-label={t("label")} onScroll={onScroll}>
        <div class="log-space" style={isWrapped ? {} : { height: `${lines.length * LINE_HEIGHT}px` }}>
          <div class="log-shown" style={isWrapped ? {} : { transform: `translateY(${first * LINE_HEIGHT}px)` }}>
            {shown.map((line) => {
              const source = sources[line.source];
              return (
                <div key={line.number} class={`log-line ${line.level}`}>
                  {showTimes && <span class="log-time">{line.time.slice(11, 23)}</span>}
                  {several && source && <span class={`log-source s${line.source % COLOURS}`} title={`${source.pod}/${source.container}`}>{source.pod}/{source.container}</span>}
                  <span class="log-text">{marked(line.text, search)}</span>
                </div>
              );
            })}
          </div>
        </div>
      </div>
      {!isAtEnd && <button type="button" class="button log-end" onClick={() => setAtEnd(true)}>{t("end")}</button>}
    </div>
  );
}

function marked(text: string, search: string) {
  if (!search || search.startsWith("/")) return text;
  const at = text.toLowerCase().indexOf(search.toLowerCase());
  if (at < 0) return text;
  return <>{text.slice(0, at)}<mark>{text.slice(at, at + search.length)}</mark>{text.slice(at + search.length)}</>;
}
