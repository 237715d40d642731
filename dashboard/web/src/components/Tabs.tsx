/** Tabs that are links: each has an address of its own. */
export interface Tab {
  readonly id: string;
  readonly label: string;
  readonly href: string;
  readonly count?: number;
}

export function Tabs({ tabs, current, label }: { tabs: readonly Tab[]; current: string; label: string }) {
  return (
    <nav class="tabs" aria-label={label}>
      {tabs.map((tab) => (
        <a key={tab.id} href={tab.href} aria-current={tab.id === current ? "page" : undefined}>
          {tab.label}
          {tab.count !== undefined && <span class="count">{tab.count}</span>}
        </a>
      ))}
    </nav>
  );
}
