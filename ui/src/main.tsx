// First, so that a component's own styles win over them.
import "./styles/tokens.css";
import "./styles/base.css";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./App";
import { LiveProvider } from "./api/live";
import { isBooth } from "./lib/route";
import { applyTheme, preferredTheme } from "./lib/theme";

applyTheme(preferredTheme());
document.documentElement.toggleAttribute("data-booth", isBooth());
const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <LiveProvider>
        <App />
      </LiveProvider>
    </StrictMode>,
  );
}
