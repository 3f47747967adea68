import { describe, expect, it } from "vitest";
import { aDecision } from "../fixtures";
import { emptyLog, look, MOST_FLIGHTS, rates } from "./flow";

const decided = (number: number, winner: number, at: number) => aDecision({ number, winner: String(winner), at });

describe("requests as they flow", () => {
  it("sends no dot for what was there before", () => {
    const first = look(emptyLog(0), [decided(5, 1, 10)], 0);
    expect(first.flights).toEqual([]);
    const second = look(first.log, [decided(7, 0, 11.5), decided(6, 2, 11), decided(5, 1, 10)], 1000);
    expect(second.flights).toEqual([{ number: 6, worker: "2", delayMs: 0 }, { number: 7, worker: "0", delayMs: 500 }]);
    expect(look(second.log, [decided(7, 0, 11.5)], 2000).flights).toEqual([]);
  });

  it("sends a dot for the first request of an idle server", () => {
    const { log } = look(emptyLog(0), [], 0);
    expect(look(log, [decided(1, 1, 3)], 1000).flights).toHaveLength(1);
  });

  it("draws a bounded number, within the time of one look", () => {
    const { log } = look(emptyLog(0), [decided(0, 0, 0)], 0);
    const many = Array.from({ length: 40 }, (_, index) => decided(index + 1, index % 3, index / 10));
    const { flights } = look(log, many, 1000);
    expect(flights).toHaveLength(MOST_FLIGHTS);
    expect(flights.at(-1)).toMatchObject({ number: 40 });
    expect(Math.max(...flights.map((flight) => flight.delayMs))).toBeLessThan(1000);
  });

  it("starts anew with the server", () => {
    const { log } = look(emptyLog(0), [decided(50, 0, 9)], 0);
    const again = look(log, [decided(2, 0, 1)], 1000);
    expect(again).toEqual({ log: { newest: 2, sinceMs: 1000, lookedMs: 1000, seen: [] }, flights: [] });
  });

  it("starts anew after a pause", () => {
    const { log } = look(emptyLog(0), [decided(50, 0, 9)], 0);
    expect(look(log, [decided(90, 0, 60)], 50_000)).toMatchObject({ flights: [], log: { newest: 90, sinceMs: 50_000 } });
  });

  it("counts requests that a look was too short for", () => {
    const { log } = look(emptyLog(0), [decided(10, 0, 1)], 0);
    const next = look(log, [decided(30, 1, 2), decided(29, 0, 2)], 1000).log;
    expect(rates(next, 2000)).toEqual(new Map([["0", 5], ["1", 5]]));
  });

  it("counts requests a second by worker, over what has been seen", () => {
    const { log } = look(emptyLog(0), [decided(1, 0, 1)], 0);
    expect(rates(log, 1000)).toBeNull();
    const next = look(log, [decided(4, 1, 3), decided(3, 1, 2.5), decided(2, 0, 2)], 1000).log;
    expect(rates(next, 4000)).toEqual(new Map([["0", 0.25], ["1", 0.5]]));
    expect(rates(next, 60_000)).toEqual(new Map());
  });
});
