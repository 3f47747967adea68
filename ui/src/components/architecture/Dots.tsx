/**
 * Requests on their way, one dot each. A pool of circles is moved by hand in animation frames:
 * thirty renderings a second for some circles would be a waste. Boxes that a dot reaches light up for a moment.
 */
import { useEffect, useRef } from "preact/compat";
import { AT_ROUTER, dotAt, FLIGHT_MS, type Layout } from "../../lib/drawing";
import type { Flight } from "../../lib/flow";
import { workerColour } from "../../lib/workers";

const POOL = 48;
type Moving = { worker: string; startMs: number; /** Of its way, when last drawn. */ before: number };

type Props = { layout: Layout; flights: Flight[]; /** Which box a worker's requests go to. */ boxOf(worker: string): number };

export function Dots({ layout, flights, boxOf }: Props) {
  const group = useRef<SVGGElement>(null);
  const moving = useRef<Moving[]>([]);
  const drawn = useRef({ layout, boxOf });
  drawn.current = { layout, boxOf };
  useEffect(() => {
    const now = performance.now();
    moving.current.push(...flights.map(({ worker, delayMs }) => ({ worker, startMs: now + delayMs, before: 0 })));
    let frame = 0;
    const draw = (nowMs: number) => {
      for (const dot of moving.current) lightUp(group.current, dot, (nowMs - dot.startMs) / FLIGHT_MS);
      moving.current = moving.current.filter((dot) => nowMs - dot.startMs < FLIGHT_MS).slice(-POOL);
      for (let index = 0; index < POOL; index += 1) place(group.current?.children[index], moving.current[index], nowMs, drawn.current);
      if (moving.current.length > 0) frame = requestAnimationFrame(draw);
    };
    frame = requestAnimationFrame(draw);
    return () => cancelAnimationFrame(frame);
  }, [flights]);
  return (
    <g ref={group} className="dots" aria-hidden="true">
      {Array.from({ length: POOL }, (_, index) => (
        <circle key={index} r="6" visibility="hidden" />
      ))}
    </g>
  );
}

function lightUp(group: SVGGElement | null, dot: Moving, progress: number) {
  for (const [name, at] of [["router", AT_ROUTER], [dot.worker, 1]] as const) {
    if (dot.before >= at || progress < at) continue;
    group?.ownerSVGElement?.querySelector(`[data-pulse="${name}"]`)?.animate([{ opacity: 0.2 }, { opacity: 0 }], { duration: 700, easing: "ease-out" });
  }
  dot.before = progress;
}

function place(circle: Element | undefined, dot: Moving | undefined, nowMs: number, drawn: { layout: Layout; boxOf(worker: string): number }) {
  if (!circle) return;
  const at = dot ? dotAt(drawn.layout, drawn.boxOf(dot.worker), (nowMs - dot.startMs) / FLIGHT_MS) : null;
  circle.setAttribute("visibility", at ? "visible" : "hidden");
  if (!at || !dot) return;
  circle.setAttribute("cx", at.x.toFixed(1));
  circle.setAttribute("cy", at.y.toFixed(1));
  circle.setAttribute("style", `fill: ${workerColour(dot.worker)}`);
}
