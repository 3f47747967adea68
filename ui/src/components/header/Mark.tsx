/** Our mark: paths that find home. The same drawing as public/icon.svg, in the theme's colours. */
export function Mark() {
  return (
    <svg className="mark" viewBox="0 0 32 32" aria-hidden="true">
      <g fill="none" strokeWidth="2.6" strokeLinecap="round">
        <path d="M3 7c7 0 8 9 14 9M3 25c7 0 8-9 14-9" stroke="var(--accent)" />
        <path d="M3 16h12" stroke="var(--kv)" />
        <circle cx="22.5" cy="16" r="6.5" stroke="var(--kv)" />
      </g>
      <circle cx="22.5" cy="16" r="2.3" fill="var(--kv)" />
    </svg>
  );
}
