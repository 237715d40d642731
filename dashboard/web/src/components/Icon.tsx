/** Line icons on a grid of 16, in the colour of the text. They are decoration: the text beside them says the same. */
const PATHS = {
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zm3.6-1.4L14 14",
  menu: "M2 4h12M2 8h12M2 12h12",
  close: "M4 4l8 8M12 4l-8 8",
  check: "M3 8.5l3.5 3.5L13 4.5",
  warning: "M8 2l6.5 12h-13zM8 6.5v3.5M8 12v.1",
  error: "M8 14.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13zM5.8 5.8l4.4 4.4M10.2 5.8l-4.4 4.4",
  info: "M8 14.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13zM8 7.5v4M8 5v.1",
  chevronDown: "M4 6l4 4 4-4",
  chevronRight: "M6 4l4 4-4 4",
  arrowUp: "M8 13V3M4 7l4-4 4 4",
  arrowDown: "M8 3v10M4 9l4 4 4-4",
  copy: "M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z",
  plus: "M8 3v10M3 8h10",
  sun: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M3 13l1-1M12 4l1-1",
  moon: "M13.5 9.5A6 6 0 0 1 6.5 2.5a6 6 0 1 0 7 7z",
  system: "M2 3h12v8H2zM6 14h4M8 11v3",
  terminal: "M2 3h12v10H2zM4.5 6l2 2-2 2M8 10h3",
  person: "M8 8a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM2.5 14.5c0-3 2.5-4.5 5.5-4.5s5.5 1.5 5.5 4.5",
  keyboard: "M1.5 4h13v8h-13zM4 6.5h.1M6.5 6.5h.1M9 6.5h.1M11.5 6.5h.1M4.5 9.5h7",
  refresh: "M13.5 8A5.5 5.5 0 1 1 11.5 3.7M13.5 1.5v3.2h-3.2",
  filter: "M2 3h12l-4.5 5.5V13l-3 1.5v-6z",
  external: "M9 2.5h4.5V7M13.5 2.5L8 8M11.5 9.5v4h-9v-9h4",
  overview: "M2 2.5h5v6H2zM9 2.5h5v3H9zM9 7.5h5v6H9zM2 10.5h5v3H2z",
  map: "M3.5 5.5a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM12.5 9.5a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM4.5 14.5a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM5.3 4.4l5.4 2.3M6.3 11.6l4.6-2.9",
  clock: "M8 14.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13zM8 4v4l3 2",
  queue: "M2 3.5h9M2 8h9M2 12.5h9M13 6l2 2-2 2",
  flag: "M3.5 15V1.5M3.5 2h9l-2 3.5 2 3.5h-9",
  lock: "M3.5 7.5h9v6h-9zM5.5 7.5V5a2.5 2.5 0 0 1 5 0v2.5",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="1.5"
      stroke-linecap="round" stroke-linejoin="round" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
