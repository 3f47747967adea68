/** Reed-Solomon codes over GF(256), as QR codes use them (ISO/IEC 18004). */

/** The field's polynomial, x^8 + x^4 + x^3 + x^2 + 1. */
const FIELD = 0x11d;

const powers = new Uint8Array(255);
const logarithms = new Uint8Array(256);
for (let exponent = 0, value = 1; exponent < 255; exponent++) {
  powers[exponent] = value;
  logarithms[value] = exponent;
  value = (value << 1) ^ (value & 0x80 ? FIELD : 0);
}

const at = (bytes: ArrayLike<number>, index: number): number => bytes[index] ?? 0;

const product = (one: number, other: number): number => (one === 0 || other === 0 ? 0 : at(powers, (at(logarithms, one) + at(logarithms, other)) % 255));

/** The product of (x - 2^i) for i below `degree`, without its leading 1. */
function generator(degree: number): number[] {
  let coefficients = [1];
  for (let root = 0; root < degree; root++) {
    const factor = at(powers, root);
    coefficients = [...coefficients, 0].map((each, index) => each ^ product(index > 0 ? at(coefficients, index - 1) : 0, factor));
  }
  return coefficients.slice(1);
}

/** `count` bytes by which `data` can be repaired. */
export function correction(data: readonly number[], count: number): number[] {
  const divisor = generator(count);
  let rest = Array.from({ length: count }, () => 0);
  for (const byte of data) {
    const factor = byte ^ at(rest, 0);
    rest = [...rest.slice(1), 0].map((each, index) => each ^ product(at(divisor, index), factor));
  }
  return rest;
}
