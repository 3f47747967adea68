import { describe, expect, it } from "vitest";
import type { Settings } from "../api/types";
import { aSnapshot } from "../fixtures";
import { BEGINNINGS, type Beginning, beginningOf, FIELDS, withBeginning, ZIPF } from "./load-settings";

const { settings } = aSnapshot();
const field = (name: keyof Settings) => [...FIELDS, ZIPF].find((each) => each.name === name) ?? ZIPF;

describe("a field of the load generator's settings", () => {
  it.each([...FIELDS, ZIPF])("$name reads what it shows", (each) => {
    const shown: Settings = { ...settings, zipf: 1.2, max_requests_per_second: 4.5 };
    expect(each.read(each.show(shown))).toEqual({ [each.name]: shown[each.name] });
  });

  it.each<[keyof Settings, string[], object | null]>([
    ["turns", ["2", " 8 "], { turns: { start: 2, end: 8 } }],
    ["turns", ["", "8"], null],
    ["turns", ["two", "8"], null],
    // Sense is the server's to judge.
    ["turns", ["5", "3"], { turns: { start: 5, end: 3 } }],
    ["think_time_s", ["0.5", "1,5"], { think_time_s: { start: 0.5, end: 1.5 } }],
    ["arrivals_per_second", [""], { arrivals_per_second: null }],
    ["arrivals_per_second", ["0.25"], { arrivals_per_second: 0.25 }],
    ["arrivals_per_second", ["-1"], null],
    ["max_requests_per_second", ["1e5"], null],
    ["zipf", [""], null],
  ])("%s reads %j", (name, texts, change) => {
    expect(field(name).read(texts)).toEqual(change);
  });
});

it.each(Object.keys(BEGINNINGS) as Beginning[])("beginning %s is what it sets", (beginning) => {
  expect(beginningOf({ ...settings, ...withBeginning(beginning) })).toBe(beginning);
});
