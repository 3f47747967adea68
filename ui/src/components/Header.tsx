/** The top of every page: what this is, whether it is alive, and the controls. */
import { useEffect } from "preact/compat";
import { useFeed } from "../api/live";
import type { Booth } from "../lib/booth";
import type { Route } from "../lib/route";
import { TABS } from "../lib/route";
import { BoothBar } from "./booth/BoothBar";
import { Alerts } from "./header/Alerts";
import { ConnectionState } from "./header/ConnectionState";
import { LoadButtons } from "./header/LoadButtons";
import { LoadSettings } from "./header/LoadSettings";
import { Mark } from "./header/Mark";
import { RouterSelect } from "./header/RouterSelect";
import { ThemeSwitch } from "./header/ThemeSwitch";
import { ViewOnly } from "./header/ViewOnly";
import "./Header.css";

const tabOf = (page: Route["page"]) => (page === "conversation" ? "conversations" : page);
const SIMULATED = "No GPU computes here: engines are simulated, with the timing of a measured profile. Routing, caches and measurements are real.";

export function Header({ page, booth = null }: { page: Route["page"]; booth?: Booth | null }) {
  const { connection, state, receivedMs } = useFeed();
  const title = state?.title ?? "Homing";
  const stale = connection === "down";
  useEffect(() => {
    document.title = title;
  }, [title]);
  useEffect(() => {
    document.documentElement.toggleAttribute("data-stale", stale);
  }, [stale]);
  return (
    <>
      <a className="skip" href="#content" onClick={(event) => skip(event)}>Skip to content</a>
      <header className="top">
        <div className="masthead">
          <Mark />
          <div className="titles">
            <h1>{title}</h1>
            <p className="muted">{state?.subtitle ?? " "}</p>
          </div>
          <div className="load-controls">
            <LoadButtons connection={connection} state={state} />
            {state?.load && <LoadSettings connection={connection} state={state} load={state.load} />}
          </div>
        </div>
        <div className="nav-bar">
          <nav aria-label="Pages">
            {TABS.map((tab) => (
              <a key={tab.page} href={tab.href} aria-current={tab.page === tabOf(page) ? "page" : undefined}>
                {tab.label}
              </a>
            ))}
          </nav>
          <div className="bar-state">
            {state && !state.control.granted && <ViewOnly tokenRequired={state.control.token_required} />}
            {state?.simulated && <span className="badge simulated" title={SIMULATED}>simulated</span>}
            <ConnectionState connection={connection} receivedMs={receivedMs} />
            {state && <RouterSelect connection={connection} state={state} />}
            <ThemeSwitch />
          </div>
        </div>
        {booth && <BoothBar booth={booth} page={page} />}
        <Alerts load={state?.load ?? null} loadAt={state?.load_at ?? null} />
      </header>
    </>
  );
}

/** The address's fragment names the page, so focus is moved by hand. */
function skip(event: Event): void {
  event.preventDefault();
  const content = document.getElementById("content");
  content?.setAttribute("tabindex", "-1");
  content?.focus();
}
