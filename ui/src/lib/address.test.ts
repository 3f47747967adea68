import { expect, it } from "vitest";
import { aSnapshot } from "../fixtures";
import { apiBase } from "./address";

const load = aSnapshot();

it("is the load generator's target", () => {
  expect(apiBase({ load }, { origin: "http://127.0.0.1:3000", hostname: "127.0.0.1" })).toBe("http://127.0.0.1:8000");
});

it("is seen from where the viewer is", () => {
  expect(apiBase({ load }, { origin: "http://booth:3000", hostname: "booth" })).toBe("http://booth:8000");
  const far = { ...load, target: { ...load.target, url: "https://api.example/x/v1/" } };
  expect(apiBase({ load: far }, { origin: "http://booth:3000", hostname: "booth" })).toBe("https://api.example/x");
});

it("is the page's origin where nothing else is known", () => {
  expect(apiBase({ load: null }, { origin: "http://booth:3000", hostname: "booth" })).toBe("http://booth:3000");
});
