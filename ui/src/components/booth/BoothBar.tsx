/** What booth mode adds to the header: the caption of the story, a button that holds the page, a QR code. */
import type { Booth } from "../../lib/booth";
import type { Route } from "../../lib/route";
import { QrCode } from "./QrCode";
import { TOUR_BUTTON, useTour } from "./useTour";

export function BoothBar({ booth, page }: { booth: Booth; page: Route["page"] }) {
  const { caption, walking, moving, toggle } = useTour(booth, page);
  const held = !walking && !moving;
  const label = walking ? "Stop the tour" : held ? "Go on" : "Hold this page";
  const button = { [TOUR_BUTTON]: "" };
  return (
    <>
      {caption !== null && <p className="tour-caption" role="status">{caption}</p>}
      <button type="button" className="tour" {...button} aria-label={label} title={`${label}. Arrow keys turn the page, the space bar holds it.`} onClick={toggle}>
        <svg viewBox="0 0 20 20" aria-hidden="true">
          {held ? <path d="M6 4l10 6-10 6z" /> : <path d="M5 4h4v12H5zM11 4h4v12h-4z" />}
        </svg>
        {moving && <span key={page} className="passing" aria-hidden="true" style={{ animationDuration: `${booth.seconds}s` }} />}
      </button>
      {booth.qr !== null && <QrCode address={booth.qr} />}
    </>
  );
}
