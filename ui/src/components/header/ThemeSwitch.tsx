/** Dark or light, kept for the next visit. */
import { useState } from "preact/compat";
import { chooseTheme, preferredTheme, type Theme } from "../../lib/theme";

export function ThemeSwitch() {
  const [theme, setTheme] = useState<Theme>(preferredTheme);
  const other: Theme = theme === "dark" ? "light" : "dark";
  const label = `Switch to the ${other} theme`;
  const change = () => {
    chooseTheme(other);
    setTheme(other);
  };
  return (
    <button type="button" className="theme" aria-label={label} title={label} onClick={change}>
      <svg viewBox="0 0 20 20" aria-hidden="true">
        <circle cx="10" cy="10" r="7" fill="none" stroke="currentColor" strokeWidth="1.6" />
        <path d="M10 3a7 7 0 0 1 0 14z" fill="currentColor" />
      </svg>
    </button>
  );
}
