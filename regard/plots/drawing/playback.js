// Word by word: each step puts the next query in focus. With "reduced motion" set in the
// browser there is no automatic playback; the steps remain.

import { html, useEffect, useState } from "./vendor/preact.js";
import { useMedia } from "./focus.js";
import { quoted } from "./numbers.js";

const PAUSE = 700;

export function Playback({ panel, focus, change, chances, isWords }) {
  const [isPlaying, setPlaying] = useState(false);
  const isStill = useMedia("(prefers-reduced-motion: reduce)");
  const here = focus.pins.find(({ side }) => side === "query")?.place ?? -1;
  const last = panel.queries.length - 1;
  const go = (place) => change({ pin: `q${Math.min(Math.max(place, 0), last) + 1}` });
  useEffect(() => {
    if (!isPlaying) return undefined;
    if (here >= last) { setPlaying(false); return undefined; }
    const waiting = setTimeout(() => go(here + 1), PAUSE);
    return () => clearTimeout(waiting);
  }, [isPlaying, here, last]);
  const play = () => {
    if (!isPlaying && here >= last) go(0);
    setPlaying(!isPlaying);
  };
  const chance = !isWords && chances?.[here] ? `, which the model held ${
    (100 * chances[here][1]).toFixed(1)} % likely` : "";
  return html`<div class="playback" role="group" aria-label="word by word">
    <button type="button" aria-label="first word" onClick=${() => go(0)}>|◀</button>
    <button type="button" aria-label="previous word" onClick=${() => go(here - 1)}>◀</button>
    ${!isStill && html`<button type="button" aria-label=${isPlaying ? "pause" : "play"}
      onClick=${play}>${isPlaying ? "❚❚" : "▶ play"}</button>`}
    <button type="button" aria-label="next word" onClick=${() => go(here + 1)}>▶</button>
    <button type="button" aria-label="last word" onClick=${() => go(last)}>▶|</button>
    <span class="quiet">${here >= 0 && here <= last
      ? html`${isWords ? "word" : "piece"} ${here + 1} of ${last + 1}: <bdi>${quoted(panel.queries[here])}</bdi>${chance}`
      : `${last + 1} ${isWords ? "words" : "pieces"}`}</span>
  </div>`;
}
