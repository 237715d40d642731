/** Tabs that are links: each has an address of its own. */
import { useEffect, useRef } from "preact/hooks";

export interface Tab {
  readonly id: string;
  readonly label: string;
  readonly href: string;
  readonly count?: number;
}

export function Tabs({ tabs, current, label }: { tabs: readonly Tab[]; current: string; label: string }) {
  const place = useRef<HTMLElement>(null);
  useEffect(() => {
    const row = place.current;
    if (!row) return undefined;
    const observer = new ResizeObserver(() => {
      const tab = row.querySelector<HTMLElement>("[aria-current]");
      if (tab) row.scrollLeft = tab.offsetLeft - (row.clientWidth - tab.clientWidth) / 2;
    });
    observer.observe(row); // Reports the first size too.
    return () => observer.disconnect();
  }, [current]);
  return (
    <nav ref={place} class="tabs" aria-label={label}>
      {tabs.map((tab) => (
        <a key={tab.id} href={tab.href} aria-current={tab.id === current ? "page" : undefined}>
          {tab.label}
          {tab.count !== undefined && <span class="count">{tab.count}</span>}
        </a>
      ))}
    </nav>
  );
}
