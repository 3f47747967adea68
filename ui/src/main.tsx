// First, so that a component's own styles win over them.
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/booth.css";
import { StrictMode } from "preact/compat";
import { createRoot } from "preact/compat/client";
import { App } from "./App";
import { LiveProvider } from "./api/live";
import { readBooth } from "./lib/booth";
import { applyTheme, preferredTheme } from "./lib/theme";

applyTheme(preferredTheme());
const booth = readBooth(window.location.search);
document.documentElement.toggleAttribute("data-booth", booth !== null);
const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <LiveProvider>
        <App booth={booth} />
      </LiveProvider>
    </StrictMode>,
  );
}
