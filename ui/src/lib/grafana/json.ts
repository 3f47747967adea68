/** Reading JSON of which nothing is promised. */

export type Json = { readonly [key: string]: unknown };

/** An object, or an empty one in its place. */
export const object = (value: unknown): Json => (typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : {});
export const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
export const text = (value: unknown): string | null => (typeof value === "string" ? value : null);
export const finite = (value: unknown): number | null => (typeof value === "number" && Number.isFinite(value) ? value : null);

/** One of some words, or `null`. */
export const oneOf = <T extends string>(value: unknown, words: readonly T[]): T | null => words.find((word) => word === value) ?? null;
