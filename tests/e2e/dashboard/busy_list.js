// Replaces the stream of a list of pods by one with 10,000 rows and 200 changes a second, so that a measurement of the
// page does not measure the machine's API server.
(() => {
  const ROWS = 10_000, CHANGES = 20, INTERVAL_MS = 100, PAGE = 500, STATES = ["Running", "Pending", "CrashLoopBackOff", "Completed"];
  const columns = ["Name", "Ready", "Status", "Restarts", "Age"].map((name) => ({ name, type: "string", format: name === "Name" ? "name" : "" }));
  const created = new Date(Date.now() - 3_600_000).toISOString();
  let count = 0;
  const row = (index) => {
    const name = `load-${String(index).padStart(5, "0")}`;
    return { key: `big/${name}`, uid: name, cells: [name, "1/1", STATES[(index + count++) % 4], String(count % 7), "1h"], metadata: { labels: { app: `app-${index % 20}` }, creationTimestamp: created } };
  };
  const Original = window.WebSocket;
  window.WebSocket = class extends Original {
    send(text) {
      const message = JSON.parse(text);
      if (message.op !== "subscribe" || !/\/namespaces\/big\/pods$/.test(message.path ?? "")) return super.send(text);
      const deliver = (value) => this.onmessage?.(new MessageEvent("message", { data: JSON.stringify({ id: message.id, ...value }) }));
      const rows = Array.from({ length: ROWS }, (_, index) => row(index));
      deliver({ type: "snapshot", columns, rows: rows.slice(0, PAGE), more: true });
      for (let start = PAGE; start < ROWS; start += PAGE) {
        deliver({ type: "changes", changes: rows.slice(start, start + PAGE).map((added) => ["PUT", added]), more: start + PAGE < ROWS });
      }
      window.setInterval(() => deliver({
        type: "changes",
        // One change in ten is in the first rows, which are on the screen.
        changes: Array.from({ length: CHANGES }, (_, index) => ["PUT", row(Math.floor(Math.random() * (index % 10 ? ROWS : 40)))]),
      }), INTERVAL_MS);
    }
  };
})();
