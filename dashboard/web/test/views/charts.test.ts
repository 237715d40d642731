import { describe, expect, it } from "vitest";
import { appended, formatCores, linePath, parseQuantity, rates, ticks } from "../../src/views/charts/series";
import { selectorText } from "../../src/views/pods";
import { localPort, portsOf } from "../../src/views/terminal/PortsTab";

describe("series", () => {
  it.each([["250m", 0.25], ["2", 2], ["12345n", 0.000012345], ["128Mi", 134217728], ["516Ki", 528384], ["1e3", 1000], ["1.5G", 1.5e9]])("quantity %s", (text, value) => {
    expect(parseQuantity(text)).toBeCloseTo(value, 12);
  });

  it("refuse what is no quantity", () => {
    expect(parseQuantity("abc")).toBeNaN();
    expect(parseQuantity("")).toBeNaN();
  });

  it("keep the newest points and leave out old times", () => {
    const points = appended([{ time: 1, value: 1 }, { time: 2, value: 2 }], { time: 3, value: 3 }, 2);
    expect(points.map((point) => point.time)).toEqual([2, 3]);
    expect(appended(points, { time: 3, value: 9 }, 2)).toBe(points);
  });

  it("have rates of counters, also after a reset", () => {
    expect(rates([{ time: 0, value: 100 }, { time: 2000, value: 300 }, { time: 4000, value: 50 }])).toEqual([{ time: 2000, value: 100 }, { time: 4000, value: 25 }]);
  });

  it("have round ticks", () => {
    expect(ticks(0.9)).toEqual([0, 0.25, 0.5, 0.75, 1]);
    expect(ticks(100 * 2 ** 20, 1024)).toEqual([0, 32, 64, 96, 128].map((value) => value * 2 ** 20));
    expect(ticks(0)).toEqual([0, 1]);
  });

  it("are drawn as a path", () => {
    expect(linePath([{ time: 0, value: 0 }, { time: 10, value: 1 }], { start: 0, end: 10, most: 2, width: 100, height: 50 })).toBe("M0.0 50.0L100.0 25.0");
    expect([formatCores(0.25), formatCores(0.0012), formatCores(1.5), formatCores(0)]).toEqual(["250m", "1.2m", "1.50", "0"]);
  });
});

describe("pods of an object", () => {
  it("are selected by labels and expressions", () => {
    expect(selectorText({ app: "web" })).toBe("app=web");
    expect(selectorText({ matchLabels: { a: "b" }, matchExpressions: [{ key: "t", operator: "In", values: ["x", "y"] }, { key: "z", operator: "Exists" }] })).toBe("a=b,t in (x,y),z");
    expect(selectorText(undefined)).toBeNull();
  });

  it("have ports", () => {
    const service = { kind: "Service", metadata: { name: "s" }, spec: { ports: [{ port: 80, nodePort: 30080 }] } };
    expect(portsOf(service)).toEqual([{ port: 80, name: "", protocol: "TCP", nodePort: 30080 }]);
    expect([localPort(80), localPort(8080)]).toEqual([8080, 8080]);
  });
});
