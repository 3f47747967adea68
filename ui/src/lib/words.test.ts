import { expect, it } from "vitest";
import { passages, splitMark } from "./words";

it("splits paragraphs on blank lines, and headings off them", () => {
  const said = (text: string) => passages(text).map((each) => (each.heading ? `<${each.text}>` : each.text));
  expect(said("one\ntwo\n\n \nthree\n")).toEqual(["one\ntwo", "three"]);
  expect(said("# Time and Order\n\nClocks\n## Why #\ndisagree")).toEqual(["<Time and Order>", "Clocks", "<Why>", "disagree"]);
  expect(said("#1 is no heading, nor is C#")).toEqual(["#1 is no heading, nor is C#"]);
  expect(said("")).toEqual([]);
});

it("takes the mark off a simulated answer", () => {
  expect(splitMark("[simulated]\n\nHello")).toEqual({ simulated: true, text: "Hello" });
  expect(splitMark("[simulated] #042\n\nHello")).toEqual({ simulated: true, text: "Hello" });
  expect(splitMark("[simulated] #0")).toEqual({ simulated: true, text: "" });
  expect(splitMark("Hello")).toEqual({ simulated: false, text: "Hello" });
});
