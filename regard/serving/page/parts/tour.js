// A short tour: cards at the bottom left that never block the page.

import { html, useEffect, useRef } from "../drawing/vendor/preact.js";
import { placeOf } from "./state.js";

const STOPS = [
  { view: "translate", title: "Words that look at words", text: "Type a sentence and have the run "
    + "answer it. Point at a word of the answer: the words that it was read off take colour. A click "
    + "pins it." },
  { view: "translate", title: "One head at a time", text: "What you see first is the mean of all "
    + "heads. Choose “Every head” and pick one, or press comma and full stop." },
  { view: "captions", title: "Pictures", text: "Upload a picture: the run captions it, and each word "
    + "shows where it looked." },
  { view: "worked", title: "Every number", text: "Three words attend to themselves. Change any number "
    + "and everything to its right is computed again, exactly as Python does it." },
  { view: "mechanisms", title: "The same sentence, other mechanisms", text: "The queries and keys of "
    + "the loaded model, weighed by other mechanisms; hover one cell and see it in all." },
  { view: "atlas", title: "Long texts", text: "The map of a long text is drawn by tiles. Scroll to "
    + "zoom, drag to move; the list names the strongest far links." },
  { view: "training", title: "How it learned", text: "The curves of the training, from metrics.jsonl." },
];

export function Tour({ views, go, here, params, change, close }) {
  const stops = STOPS.filter((stop) => views.some((view) => view.name === stop.view));
  const place = Math.min(placeOf(params.tour), stops.length - 1);
  const stop = stops[place], card = useRef(null);
  const visit = (next) => {
    if (stops[next].view !== here.name) go(stops[next].view);
    setTimeout(() => change({ tour: String(next + 1) }), 0);
  };
  useEffect(() => { card.current?.focus(); if (stop.view !== here.name) visit(place); }, []);
  return html`<aside class="tour" role="dialog" aria-modal="false" aria-label="tour" tabIndex="-1"
    ref=${card} onKeyDown=${(event) => event.key === "Escape" && close()}>
    <h2>${stop.title}</h2><p>${stop.text}</p>
    <div class="bar"><button type="button" disabled=${place === 0}
        onClick=${() => visit(place - 1)}>Back</button>
      ${place < stops.length - 1
        ? html`<button type="button" onClick=${() => visit(place + 1)}>Next</button>`
        : html`<button type="button" onClick=${close}>Done</button>`}
      <span class="quiet">${place + 1} of ${stops.length}</span>
      <button type="button" class="plain" onClick=${close}>End the tour</button></div></aside>`;
}
