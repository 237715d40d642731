/** A bar for a part of a whole, such as used CPU of capacity; a mark shows a second value, such as requests. */
export interface MeterProps {
  readonly label: string;
  /** 0 to 1 (more is drawn as full). */
  readonly value: number | undefined;
  readonly mark?: number | undefined;
  readonly text: string;
  /** How far something is: full is good. */
  readonly isProgress?: boolean;
}

export function Meter({ label, value, mark, text, isProgress }: MeterProps) {
  const share = value === undefined ? 0 : Math.min(1, Math.max(0, value));
  const level = isProgress ? "good" : share >= 0.9 ? "bad" : share >= 0.75 ? "warning" : "good";
  return (
    <div class="meter" role={isProgress ? "progressbar" : "meter"} aria-label={label} aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.round(share * 100)} aria-valuetext={text}>
      <span class="meter-label">{label}</span>
      <svg class="meter-bar" preserveAspectRatio="none" viewBox="0 0 100 6" aria-hidden="true" focusable="false">
        <rect class="meter-track" width="100" height="6" rx="1" />
        <rect class={`meter-fill ${level}`} width={share * 100} height="6" rx="1" />
        {mark !== undefined && <rect class="meter-mark" x={Math.min(99, mark * 100)} width="1" height="6" />}
      </svg>
      <span class="meter-text">{text}</span>
    </div>
  );
}
