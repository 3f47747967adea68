import { describe, expect, it } from "vitest";
import { keyAction, neighbour, readBooth } from "./booth";

describe("the address", () => {
  it.each([
    ["", null],
    ["?theme=dark", null],
    ["?booth", { seconds: 30, attract: false, qr: null }],
    ["?booth=20&attract", { seconds: 20, attract: true, qr: null }],
    ["?booth=0", { seconds: 0, attract: false, qr: null }],
    ["?booth=1", { seconds: 5, attract: false, qr: null }],
    ["?booth=soon", { seconds: 30, attract: false, qr: null }],
    ["?booth&qr=https%3A%2F%2Fexample.org%2Fhoming", { seconds: 30, attract: false, qr: "https://example.org/homing" }],
    ["?booth&qr=javascript:alert(1)", { seconds: 30, attract: false, qr: null }],
    ["?booth&qr=homing", { seconds: 30, attract: false, qr: null }],
  ])("%s", (search, booth) => {
    expect(readBooth(search)).toEqual(booth);
  });
});

it("turns pages around the corner", () => {
  const pages = ["a", "b", "c"];
  expect([neighbour(pages, "a", 1), neighbour(pages, "c", 1), neighbour(pages, "a", -1), neighbour(pages, "x", 1)]).toEqual(["b", "a", "c", "a"]);
});

describe("a key", () => {
  const press = (key: string, target: Element = document.body, change = {}) => keyAction({ key, target, ctrlKey: false, metaKey: false, altKey: false, ...change });

  it("turns the page or pauses", () => {
    expect(["ArrowRight", "ArrowLeft", " ", "x"].map((key) => press(key))).toEqual(["next", "previous", "pause", null]);
  });

  it("belongs to the control that has the focus, or to the browser", () => {
    const button = document.createElement("button");
    expect(press(" ", button)).toBeNull();
    expect(press("ArrowRight", document.body, { altKey: true })).toBeNull();
  });
});
