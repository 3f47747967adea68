import { describe, expect, it } from "vitest";
import { correction } from "./bytes";
import { type Matrix, penalty, qrCode } from "./qr";

/** Rows as hexadecimal numbers. */
const hex = (matrix: Matrix | null) => matrix?.map((row) => BigInt(`0b${row.map(Number).join("")}`).toString(16).padStart(Math.ceil(row.length / 4), "0")).join(" ");

/** Drawn by another encoder (Python's qrcode 8) with the same version and mask: every version, and most masks. */
const GOLDEN: ReadonlyArray<[text: string, mask: number, rows: string]> = [
  ["https://a.ab", 0, "1fc37f 105441 17425d 174e5d 175f5d 104641 1fd57f 000800 154112 00ae71 1fc697 153f12 1bd628 001eb3 1fc1d7 104fb2 175d0a 174b5a 175315 104812 1fd11b"],
  ["https://example.org/a/b", 3, "1fde57f 105bd41 174aa5d 175bc5d 174d75d 1047541 1fd557f 0017300 16e434b 0aba8a2 15629f0 121cc0c 1347ed7 080b7f1 0872916 17be7f1 004dfff 0018115 1fd8d57 105a311 17445fa 17582df 1754cd6 1043ad4 1fd70ff"],
  ["https://example.org/homing/console", 5, "1fc7347f 1059d141 1751a35d 175a1b5d 174e3f5d 104b2441 1fd5557f 001d7000 10550ace 01129eb6 12f7f9b0 1e8f9728 0546b161 1f803673 0c60297c 12060255 1eda0c0c 1f26ff77 1ee22379 1310b280 114b49f7 00166718 1fc83f5c 10436311 174ee3fb 1742ff2d 174fabfe 104c60bd 1fd44af4"],
  ["https://example.org/homing/console?booth=30&x=1", 6, "1fd4cc47f 105bd7141 1756c2d5d 174e77c5d 175ab045d 1049f2341 1fd55557f 0002f0200 13fb58097 1192aee1c 0df6b0edf 158eb7224 1a4ba8540 059b4f7ac 034ee394c 0628111a5 0674213f0 12b72e455 01daaeead 0a95f05dc 0a51d6ca9 10a1c8fb8 16f38f6d3 10822b5a7 1c4cd13f8 001fac916 1fdc2a354 10596ff1e 175bb8ff1 175f14fad 174a2223b 10458763f 1fd27b130"],
  ["https://example.org/grün/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 7, "1fc8edaa7f 104a282f41 174afc715d 1743d5045d 1742b8a65d 10567f8f41 1fd555557f 0001c0f200 12dc4b8ca0 042f21554d 0e55d7d0f3 07a4a3caa0 02c28aabcb 1920cf0c65 0e5adc41b5 138a6e8b92 016a24c3cc 108cfc79df 17dd755d17 1d2408e396 0b58a39f5a 1eba9571e9 06f60b3c03 07b8abae00 06da6288e8 06a0f3146b 1669cc7dc5 0b912aae32 1f4858e7fe 001414751b 1fc955475b 10537cd11e 174a7fadfa 175735543e 1742a71333 104fd38960 1fddaabb4b"],
  ["https://example.org/yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy", 1, "1fdb380007f 104cd111141 17505bbbb5d 174f33fff5d 174bf08085d 105c51d5541 1fd5555557f 00036440400 14685051125 1dab8fbbfe7 0e722effe9d 0daa546479a 00c00122042 1d29fdfffe7 17703deeed5 04aa77444da 0bd010000c2 16137ffffe7 1b5eb2eeeb5 0920984448a 135698c0042 1e87fbb7fe5 1d5a7e2ae95 0f241444098 13478004141 0b9e1ffbaeb 11ddfeeee9d 0685e47579a 13e7c000042 0b9e4cfffe7 19dcceeee95 0705d44445a 1be6e2001f2 001ef7fff17 1fda0e2ed55 104f548471a 17428c803f2 1746ffbf635 175a46e2e95 1043dc40748 1fd75411151"],
];

describe("a QR code", () => {
  it.each(GOLDEN)("of %s is what another encoder draws", (text, mask, rows) => {
    expect(hex(qrCode(text, mask))).toBe(rows);
  });

  it("takes the mask with the least penalty", () => {
    const text = "https://example.org/";
    const least = Math.min(...Array.from({ length: 8 }, (_, mask) => penalty(qrCode(text, mask) ?? [])));
    expect(penalty(qrCode(text) ?? [])).toBe(least);
  });

  it("takes the smallest version, and none for what is too long", () => {
    const size = (bytes: number) => qrCode("x".repeat(bytes))?.length;
    expect([14, 15, 26, 42, 62, 84, 106, 107].map(size)).toEqual([21, 25, 25, 29, 33, 37, 41, undefined]);
  });
});

it("has correction bytes as the standard's example", () => {
  expect(correction([0x10, 0x20, 0x0c, 0x56, 0x61, 0x80, 0xec, 0x11, 0xec, 0x11, 0xec, 0x11, 0xec, 0x11, 0xec, 0x11], 10)).toEqual([0xa5, 0x24, 0xd4, 0xc1, 0xed, 0x36, 0xc7, 0x87, 0x2c, 0x55]);
});
