/** An address as a QR code: dark on white in both themes, with the quiet zone that readers need. */
import { useMemo } from "preact/compat";
import { qrCode } from "../../lib/qr/qr";

const QUIET = 4;

export function QrCode({ address }: { address: string }) {
  const matrix = useMemo(() => qrCode(address), [address]);
  if (!matrix) return null;
  const size = matrix.length + 2 * QUIET;
  const path = matrix.flatMap((row, y) => row.flatMap((dark, x) => (dark ? [`M${x + QUIET} ${y + QUIET}h1v1h-1z`] : []))).join("");
  return (
    <svg className="qr" viewBox={`0 0 ${size} ${size}`} role="img" aria-label={`QR code: ${address}`} shapeRendering="crispEdges">
      <rect width={size} height={size} fill="#fff" />
      <path d={path} fill="#000" />
    </svg>
  );
}
