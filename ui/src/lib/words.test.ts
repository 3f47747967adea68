import { expect, it } from "vitest";
import { paragraphs, splitMark } from "./words";

it("splits paragraphs on blank lines", () => {
  expect(paragraphs("one\ntwo\n\n \nthree\n")).toEqual(["one\ntwo", "three"]);
  expect(paragraphs("")).toEqual([]);
});

it("takes the mark off a simulated answer", () => {
  expect(splitMark("[simulated]\n\nHello")).toEqual({ simulated: true, text: "Hello" });
  expect(splitMark("[simulated] #042\n\nHello")).toEqual({ simulated: true, text: "Hello" });
  expect(splitMark("[simulated] #0")).toEqual({ simulated: true, text: "" });
  expect(splitMark("Hello")).toEqual({ simulated: false, text: "Hello" });
});
