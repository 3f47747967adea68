import { describe, expect, it } from "vitest";
import { parseQuery, parseRoute, TABS, withQuery } from "./route";

describe("the route", () => {
  it("is the page before the question mark", () => {
    expect(parseRoute("#/conversations?status=active&sort=longest")).toEqual({ page: "conversations" });
    expect(parseRoute("#/conversations/a%20b?x=1")).toEqual({ page: "conversation", id: "a b" });
    expect(parseRoute("#/conversations/100%")).toEqual({ page: "conversation", id: "100%" });
    expect(parseRoute("#/routing?decision=7")).toEqual({ page: "routing" });
    expect(parseRoute("#/story?level=60")).toEqual({ page: "story" });
    expect(parseRoute("#/grafana")).toEqual({ page: "grafana", uid: null });
    expect(parseRoute("#/grafana/gtc-demo?range=5m")).toEqual({ page: "grafana", uid: "gtc-demo" });
    expect(parseRoute("")).toEqual({ page: "dashboard" });
    expect(parseRoute("#/?theme=dark")).toEqual({ page: "dashboard" });
  });

  it("of every tab is the tab's page", () => {
    for (const tab of TABS) {
      expect(parseRoute(tab.href).page).toBe(tab.page);
    }
  });

  it("reads and changes the page's own values", () => {
    expect(parseQuery("#/conversations?status=active").get("status")).toBe("active");
    expect(parseQuery("#/conversations").get("status")).toBeNull();
    expect(withQuery("#/conversations", { status: "error" })).toBe("#/conversations?status=error");
    expect(withQuery("#/conversations?status=error&sort=turns", { status: null })).toBe("#/conversations?sort=turns");
    expect(withQuery("#/conversations?status=error", { status: null })).toBe("#/conversations");
    expect(withQuery("", { a: "1" })).toBe("#/?a=1");
  });
});
