/** The few globals of a browser that modules without a document touch when they are loaded. */
const listeners = (): void => undefined;
const element = { lang: "", setAttribute: listeners, removeAttribute: listeners };
Object.assign(globalThis, {
  navigator: { languages: ["en"] },
  window: globalThis,
  location: { pathname: "/ui/", search: "", origin: "http://localhost", hash: "" },
  history: { pushState: listeners, replaceState: listeners },
  document: { documentElement: element, addEventListener: listeners, hidden: true },
  localStorage: { getItem: () => null, setItem: listeners },
});
