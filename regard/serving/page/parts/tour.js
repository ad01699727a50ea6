// A short tour. Each stop points at what it speaks of, and its card stands beside that, never on it.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../drawing/vendor/preact.js";
import { placeOf } from "./state.js";

// `at` are the places that a stop may speak of; the first that is on the page is pointed at
const STOPS = [
  { view: "answer", at: [".ask-row"], title: "Ask the run", text: "Type a text, or take one of the examples below: "
    + "they come from the run's own data." },
  { view: "answer", at: [".line"], title: "Words that look at words", text: "Point at a word: the words that it looked "
    + "at take colour. A click pins it, and another with Shift adds to it." },
  { view: "answer", at: [".picker", ".side-panel"], title: "One head at a time", text: "What you see first is the mean of "
    + "all heads. Each small map is a head: choose one, or press comma and full stop." },
  { view: "answer", at: [".map .cells", ".picture"], title: "The map", text: "Rows are what looks, columns what is looked "
    + "at. Point at a cell to read its number." },
  { view: "captions", at: [".photo"], title: "Pictures", text: "Each word of the caption shows where it looked. Click a "
    + "place to see which words look at it." },
  { view: "worked", at: [".stages"], title: "Every number", text: "Three words attend to themselves. Change any number "
    + "and everything to its right is computed again, exactly as Python does it." },
  { view: "mechanisms", at: [".side-by-side figure"], title: "The same text, other mechanisms", text: "The queries and keys of "
    + "the loaded model, weighed by other mechanisms; point at one cell and see it in all." },
  { view: "atlas", at: [".atlas"], title: "Long texts", text: "The map of a long text is drawn by tiles. Scroll to "
    + "zoom, drag to move; the list names the strongest far links." },
  { view: "training", at: [".chart", ".progress"], title: "How it learned", text: "The curves of the training grow while it runs." },
];
const GAP = 14;

// beside the spot, where there is room: below, above, right, left; else in the corner that is farthest from it
function besides(spot, card) {
  const { innerWidth: wide, innerHeight: high } = window, { width, height } = card;
  const x = Math.min(Math.max(spot.left, GAP), wide - width - GAP), y = Math.min(Math.max(spot.top, GAP), high - height - GAP);
  const places = [[x, spot.bottom + GAP], [x, spot.top - GAP - height], [spot.right + GAP, y], [spot.left - GAP - width, y]];
  const fits = ([left, top]) => left >= 0 && top >= 0 && left + width <= wide && top + height <= high;
  return places.find(fits) ?? [wide - width - GAP, spot.top + spot.height / 2 > high / 2 ? GAP : high - height - GAP];
}

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

// the place of what is pointed at, followed while the page changes
function useSpot(stop, card) {
  const [seen, setSeen] = useState(null);
  useLayoutEffect(() => {
    let frame = 0, isShown = false;
    const look = () => {
      const found = stop.at.map((one) => document.querySelector(`main ${one}`)).find(Boolean);
      if (found && !isShown) { found.scrollIntoView({ block: "nearest" }); isShown = true; }
      const box = found?.getBoundingClientRect(), own = card.current?.getBoundingClientRect();
      const next = box && own ? { spot: { left: box.left - 5, top: box.top - 5, width: box.width + 10, height: box.height + 10 },
        place: besides(box, own) } : null;
      setSeen((last) => (same(last, next) ? last : next));
      frame = requestAnimationFrame(look);
    };
    look();
    return () => cancelAnimationFrame(frame);
  }, [stop]);
  return seen;
}

const px = (size) => `${Math.round(size)}px`;

export function Tour({ views, go, here, params, change, close }) {
  const stops = STOPS.filter((stop) => views.some((view) => view.name === stop.view));
  const place = Math.min(placeOf(params.tour), stops.length - 1);
  const stop = stops[place], card = useRef(null), seen = useSpot(stop, card);
  const visit = (next) => {
    if (stops[next].view !== here.name) go(stops[next].view);
    setTimeout(() => change({ tour: String(next + 1) }), 0);
  };
  useEffect(() => { card.current?.focus(); if (stop.view !== here.name) visit(place); }, []);
  const where = seen && { left: px(seen.place[0]), top: px(seen.place[1]), bottom: "auto" };
  return html`${seen && html`<i class="spot" aria-hidden="true" style=${Object.fromEntries(
      Object.entries(seen.spot).map(([side, size]) => [side, px(size)]))}></i>`}
    <div class="tour" role="dialog" aria-modal="false" aria-label="tour" tabIndex="-1" style=${where ?? {}}
    ref=${card} onKeyDown=${(event) => event.key === "Escape" && close()}>
    <h2>${stop.title}</h2><p>${stop.text}</p>
    <div class="bar"><button type="button" disabled=${place === 0}
        onClick=${() => visit(place - 1)}>Back</button>
      ${place < stops.length - 1
        ? html`<button type="button" class="main" onClick=${() => visit(place + 1)}>Next</button>`
        : html`<button type="button" class="main" onClick=${close}>Done</button>`}
      <span class="quiet small">${place + 1} of ${stops.length}</span>
      <button type="button" class="plain" onClick=${close}>End the tour</button></div></div>`;
}
