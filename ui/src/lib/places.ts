/** A few places for many: who finds none waits for one, first come, first served. */

/** Gives a function that resolves once there is a place; what it resolves to gives the place back. */
export function places(count: number): () => Promise<() => void> {
  let free = count;
  const waiting: Array<() => void> = [];
  const leave = () => {
    const next = waiting.shift();
    if (next) next();
    else free += 1;
  };
  return async () => {
    if (free > 0) free -= 1;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    let left = false;
    return () => {
      if (!left) leave();
      left = true;
    };
  };
}
