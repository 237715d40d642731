/** A difference of two texts by line, with unchanged runs folded. */
import { useMemo, useState } from "preact/hooks";
import { catalog } from "../../app/i18n";
import { countChanges, diffLines, type DiffLine, foldUnchanged } from "./diff";
import "./editor.css";

const t = catalog({
  label: ["Differences", "差异"],
  none: ["No differences: the server would change nothing.", "没有差异：服务器不会做任何更改。"],
  fold: ["Show {n} unchanged {n|line|lines}", "显示 {n} 行未更改内容"],
  counts: ["{added} added, {removed} removed", "新增 {added} 行，删除 {removed} 行"],
  added: ["added", "新增"],
  removed: ["removed", "删除"],
});

const MARKS = { add: "+", remove: "−", same: " " } as const;

export function DiffView({ before, after, label }: { before: string; after: string; label?: string }) {
  const lines = useMemo(() => diffLines(before, after), [before, after]);
  const folded = useMemo(() => foldUnchanged(lines), [lines]);
  const [open, setOpen] = useState<ReadonlySet<number>>(new Set());
  const counts = countChanges(lines);
  if (!counts.added && !counts.removed) return <p class="muted diff-none">{t("none")}</p>;
  return (
    <figure class="diff" aria-label={label ?? t("label")}>
      <figcaption class="muted">{t("counts", counts)}</figcaption>
      <div class="diff-lines" tabIndex={0} role="group" aria-label={label ?? t("label")}>
        {folded.map((entry, index) => {
          if (entry.change !== "fold") return <Line key={index} line={entry} />;
          if (open.has(index)) return entry.lines.map((line, offset) => <Line key={`${index}-${offset}`} line={line} />);
          return (
            <button key={index} type="button" class="diff-fold" onClick={() => setOpen(new Set([...open, index]))}>
              {t("fold", { n: entry.lines.length })}
            </button>
          );
        })}
      </div>
    </figure>
  );
}

function Line({ line }: { line: DiffLine }) {
  return (
    <div class={`diff-line ${line.change}`}>
      <span class="diff-number" aria-hidden="true">{line.before || ""}</span>
      <span class="diff-number" aria-hidden="true">{line.after || ""}</span>
      <span class="diff-mark" aria-hidden="true">{MARKS[line.change]}</span>
      {line.change !== "same" && <span class="visually-hidden">{line.change === "add" ? t("added") : t("removed")}: </span>}
      <span class="diff-text">{line.text}</span>
    </div>
  );
}
