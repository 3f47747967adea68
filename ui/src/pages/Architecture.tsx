/** The whole system as it runs, what of it is real, and where it can be reached. */
import { useLive } from "../api/live";
import type { State } from "../api/types";
import { SystemDrawing } from "../components/architecture/SystemDrawing";
import { CopyButton } from "../components/CopyButton";
import { Notice } from "../components/Notice";
import { apiBase, pageBase } from "../lib/address";
import { isElsewhere } from "../lib/mode";
import "./Architecture.css";

export function Architecture() {
  const state = useLive();
  if (!state) return <Notice>Waiting for the server…</Notice>;
  return (
    <>
      <section className="panel">
        <header className="page-head">
          <h2>Demo Architecture</h2>
          {state.simulated && <span className="badge simulated">simulated GPUs</span>}
        </header>
        {isElsewhere(state.router) ? <Notice>The target is another server. Only its answers are visible, so there is no architecture to draw.</Notice> : <Drawn state={state} />}
      </section>
      <div className="two-panels">
        {state.simulated && <RealOrNot />}
        <Addresses state={state} />
      </div>
    </>
  );
}

function Drawn({ state }: { state: State }) {
  return (
    <>
      <SystemDrawing state={state} />
      <p className="muted small legend">
        Each dot is one request that the router has just placed, in the colour of its worker; at most 16 a second are drawn. Dashed: KV
        events, by which workers tell the router which blocks they store and drop. In a cache the bright part is in use, the pale part is kept
        for reuse. Rates of workers and router are over the last 20 s.
      </p>
    </>
  );
}

const ROWS: ReadonlyArray<readonly [string, string]> = [
  ["HTTP, streaming, errors, limits, cancellation", "step times of the engine: a profile that names the origin of every constant"],
  ["chat template, tokenizer, block hashes", "the text of an answer: passages of the built-in articles, marked"],
  ["router, prefix index, KV events, reservations", "speculative decoding's acceptance: probabilities per position"],
  ["scheduler, batching, block pool, prefix reuse, eviction", "GPU utilisation and memory"],
  ["cached tokens: what the block pool really reused", ""],
];

function RealOrNot() {
  return (
    <section className="panel">
      <header>
        <h2>What is real, what is simulated</h2>
      </header>
      <table>
        <thead>
          <tr>
            <th scope="col">Real</th>
            <th scope="col">Simulated</th>
          </tr>
        </thead>
        <tbody>
          {ROWS.map(([real, simulated]) => (
            <tr key={real}>
              <td>{real}</td>
              <td>{simulated}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Addresses({ state }: { state: State }) {
  const base = apiBase(state, window.location);
  const here = pageBase(window.location.href);
  const rows = [
    { label: "API", href: `${base}/v1/models`, text: `${base}/v1` },
    { label: "Metrics", href: `${base}/metrics`, text: `${base}/metrics` },
    { label: "Decisions", href: `${base}/decisions?limit=1`, text: `${base}/decisions` },
    { label: "Interface", href: `${base}/openapi.json`, text: `${base}/openapi.json` },
    ...(state.grafana_url === null ? [] : [{ label: "Grafana", href: state.grafana_url, text: state.grafana_url }]),
    { label: "Console", href: `${here}/`, text: `${here}/` },
  ];
  return (
    <section className="panel">
      <header>
        <h2>Addresses</h2>
      </header>
      <table className="addresses">
        <tbody>
          {rows.map(({ label, href, text }) => (
            <tr key={label}>
              <th scope="row">{label}</th>
              <td className="mono">
                <a href={href} target="_blank" rel="noreferrer">
                  {text}
                </a>
              </td>
              <td>
                <CopyButton text={text} label={`Copy the address: ${label}`} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <p className="muted small">Model: {state.model}. Version {state.version}.</p>
    </section>
  );
}
