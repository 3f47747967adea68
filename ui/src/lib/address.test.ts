import { expect, it } from "vitest";
import { aSnapshot } from "../fixtures";
import { apiBase, endpoint, grafanaAddress, pageBase, socketAddress } from "./address";

const load = aSnapshot();

it("is the load generator's target", () => {
  expect(apiBase({ load }, { href: "http://127.0.0.1:3000/", hostname: "127.0.0.1" })).toBe("http://127.0.0.1:8000");
});

it("is seen from where the viewer is", () => {
  expect(apiBase({ load }, { href: "http://booth:3000/", hostname: "booth" })).toBe("http://booth:8000");
  const far = { ...load, target: { ...load.target, url: "https://api.example/x/v1/" } };
  expect(apiBase({ load: far }, { href: "http://booth:3000/", hostname: "booth" })).toBe("https://api.example/x");
});

it("is the page's folder where nothing else is known", () => {
  expect(apiBase({ load: null }, { href: "http://booth:3000/?theme=dark#/features", hostname: "booth" })).toBe("http://booth:3000");
  expect(apiBase({ load: null }, { href: "https://booth/homing/#/features", hostname: "booth" })).toBe("https://booth/homing");
});

it.each([
  ["http://booth:3000/", "http://booth:3000"],
  ["http://booth:3000/?booth#/story", "http://booth:3000"],
  ["https://booth/homing/", "https://booth/homing"],
  ["https://booth/a/b/index.html?q=/x#/y", "https://booth/a/b"],
])("of the page at %s is in the folder %s", (href, folder) => {
  expect(pageBase(href)).toBe(folder);
  expect(endpoint("api/state?x=1", href)).toBe(`${folder}/api/state?x=1`);
  expect(socketAddress("api/stream", href)).toBe(`${folder.replace("http", "ws")}/api/stream`);
});

it("leads to the same dashboard over the same time in Grafana", () => {
  expect(grafanaAddress("https://booth/grafana/", "gtc-demo", "1800s")).toBe("https://booth/grafana/d/gtc-demo?from=now-1800s&to=now");
});
