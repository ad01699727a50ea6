// Coloured words: the words that the focus looks at, shaded by weight. Each word is a button; one of
// a line is reached by Tab, the others by arrow keys.

import { html, useRef, useState } from "../vendor/preact.js";
import { colour, css, ink } from "./colours.js";
import { column, heaviest, quoted, written, zeros } from "./numbers.js";

const SHOWN = 5;

// the weights of the other side's words, summed over all words in focus
export function shadesOf(panel, at) {
  if (!at.length) return null;
  const [{ side }] = at;
  const lines = at.filter((one) => one.place < panel[side === "query" ? "queries" : "keys"].length)
    .map(({ place }) => (side === "query" ? panel.weights[place] : column(panel.weights, place)));
  if (!lines.length) return null;
  const out = zeros(1, lines[0].length)[0];
  lines.forEach((line) => line.forEach((weight, i) => { out[i] += weight; }));
  return { side: side === "query" ? "key" : "query", weights: out, count: lines.length };
}

export function readout(panel, at) {
  const shades = shadesOf(panel, at);
  if (!shades) return "Point at a word, or reach it with Tab and the arrow keys.";
  const isQuery = shades.side === "key";
  const [own, names, verb] = isQuery ? [panel.queries, panel.keys, "looks at"]
    : [panel.keys, panel.queries, "is seen by"];
  const said = at.map(({ place }) => quoted(own[place])).join(" + ");
  return `${said} ${at.length > 1 && isQuery ? "look at" : verb} ` + heaviest(shades.weights)
    .slice(0, SHOWN).map(([weight, place]) => `${quoted(names[place])} ${written(weight)}`).join(", ");
}

export function Line({ panel, side, focus, shades, top, scale, stops, hasNumbers, lang }) {
  const box = useRef(null);
  const [tabbed, setTabbed] = useState(0);
  const names = side === "query" ? panel.queries : panel.keys;
  const label = side === "query" ? panel.queryTitle : panel.keyTitle;
  const stop = Math.min(tabbed, names.length - 1);
  const shade = shades?.side === side ? shades.weights : null;
  const isIn = (list, place) => list.some((one) => one.side === side && one.place === place);
  const walk = (event) => {
    const words = [...box.current.children].map((one) => one.firstElementChild);
    const here = words.indexOf(document.activeElement);
    const forward = box.current.matches(":dir(rtl)") ? -1 : 1;
    const steps = { ArrowRight: forward, ArrowLeft: -forward, Home: -here, End: words.length - 1 - here };
    if (event.key === "Escape") focus.clear();
    if (!(event.key in steps) || here < 0) return;
    words[Math.min(Math.max(here + steps[event.key], 0), words.length - 1)].focus();
    event.preventDefault();
  };
  return html`<div class="side">
    <div class="name">${label}</div>
    <div class=${`line ${panel.isWords ? "words" : "pieces"}`} role="toolbar" aria-label=${label}
      dir="auto" lang=${lang} ref=${box} onKeyDown=${walk}>
      ${names.map((name, place) => {
        const ground = shade && colour(stops, scale.share(shade[place], top));
        return html`<span class="word" key=${place}><button type="button"
          class=${[panel.specials[side].has(place) && "special",
            isIn(focus.at, place) && "here"].filter(Boolean).join(" ")}
          style=${ground ? { background: css(ground), color: ink(ground) } : {}}
          tabIndex=${place === stop ? 0 : -1} aria-pressed=${String(isIn(focus.pins, place))}
          data-place=${place}
          onPointerEnter=${() => focus.setHover({ side, place })}
          onPointerLeave=${() => focus.setHover(null)}
          onFocus=${() => { setTabbed(place); focus.setHover({ side, place }); }}
          onBlur=${() => focus.setHover(null)}
          onClick=${(event) => focus.toggle(side, place, event.shiftKey)}
          >${name}</button>${hasNumbers && html`<small aria-hidden="true">${
            shade ? written(shade[place]) : " "}</small>`}</span>`;
      })}
    </div></div>`;
}

export function Legend({ top, stops, scale, from = "0", name = "weight" }) {
  const gradient = `linear-gradient(to right, ${stops.map((stop) => css(stop)).join(",")})`;
  return html`<p class="legend"><span>${name} ${from}</span><i style=${{ background: gradient }}></i>
    <span class="legend-top">${written(top)}</span><span class="quiet">${scale?.name ?? ""}</span></p>`;
}
