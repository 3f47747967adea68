/** Renders components for tests, and waits until what an event changed is drawn. */
import { configure, fireEvent, screen, within } from "@testing-library/dom";
import { type ComponentChild, render as draw } from "preact";
import { act } from "preact/test-utils";

export { act, fireEvent, screen, within };

configure({
  asyncWrapper: async (wait) => {
    const outcome = await wait();
    await act(() => {});
    return outcome;
  },
  eventWrapper: (send) => {
    let outcome: unknown;
    void act(() => void (outcome = send()));
    return outcome as ReturnType<typeof send>;
  },
});

const places = new Set<HTMLElement>();

export function render(what: ComponentChild) {
  const place = document.body.appendChild(document.createElement("div"));
  places.add(place);
  const rerender = (next: ComponentChild) => void act(() => draw(next, place));
  rerender(what);
  return { container: place, rerender, unmount: () => rerender(null) };
}

/** Removes all that was rendered. */
export function cleanup(): void {
  for (const place of places) {
    void act(() => draw(null, place));
    place.remove();
  }
  places.clear();
}
