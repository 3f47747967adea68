import type { Route } from "../lib/route";
import { TABS } from "../lib/route";

export function Header({ page }: { page: Route["page"] }) {
  return (
    <header>
      <nav>
        {TABS.map((tab) => (
          <a key={tab.page} href={tab.href} aria-current={tab.page === page ? "page" : undefined}>
            {tab.label}
          </a>
        ))}
      </nav>
    </header>
  );
}
