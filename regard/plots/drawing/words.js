// Coloured words: the words that the focus looks at, shaded by weight. Each word is a button; Tab reaches
// one word of a line, arrow keys the others.

import { html, useEffect, useRef, useState } from "./vendor/preact.js";
import { colour, css, gradient, ink } from "./colours.js";
import { column, heaviest, quoted, written, zeros } from "./numbers.js";

const SHOWN = 5, LONG = 200;

// the weights of the other side's words, summed over all words in focus
export function shadesOf(panel, at) {
  if (!at.length) return null;
  const [{ side }] = at, isQuery = side === "query";
  const places = at.map(({ place }) => place).filter((place) => place < panel[isQuery ? "queries" : "keys"].length);
  if (!places.length) return null;
  const line = (matrix, place) => (isQuery ? matrix[place] : column(matrix, place));
  const out = zeros(1, panel[isQuery ? "keys" : "queries"].length)[0];
  places.forEach((place) => line(panel.weights, place).forEach((weight, i) => { out[i] += weight; }));
  // a word is masked if it is masked for every word in focus
  const isMasked = (i) => Boolean(panel.visible) && places.every((place) => !line(panel.visible, place)[i]);
  const seen = (row) => panel.allowed?.[row] ?? panel.keys.length;
  const allowed = isQuery ? () => places.reduce((sum, row) => sum + seen(row), 0) / places.length : seen;
  return { side: isQuery ? "key" : "query", weights: out, count: places.length, isMasked, allowed };
}

// the upper end of the colour scale for the words in focus
export const shadesTop = (shades, scale, top) => (shades && shades.count > 1
  ? Math.max(...shades.weights.map((weight, i) => scale.value(weight, shades.allowed(i))), top) : top);

export function readout(panel, at) {
  const shades = shadesOf(panel, at);
  if (!shades) return "Point at a word, or reach it with Tab and the arrow keys.";
  const isQuery = shades.side === "key";
  const [looks, isSeen] = panel.verbs ?? ["looks at", "is seen by"];
  const [own, names, verb] = isQuery ? [panel.queries, panel.keys, looks] : [panel.keys, panel.queries, isSeen];
  const said = at.map(({ place }) => quoted(own[place])).join(" + ");
  return `${said} ${at.length > 1 && isQuery ? verb.replace(/s /, " ") : verb} ` + heaviest(shades.weights)
    .filter(([, place]) => !shades.isMasked(place)).slice(0, SHOWN).map(([weight, place]) => `${quoted(names[place])} ${written(weight)}`).join(", ");
}

export function Line({ panel, side, focus, shades, top, scale, stops, hasNumbers, lang, tools, notes }) {
  const box = useRef(null);
  const [tabbed, setTabbed] = useState(0);
  const names = side === "query" ? panel.queries : panel.keys;
  const label = side === "query" ? panel.queryTitle : panel.keyTitle;
  const stop = Math.min(tabbed, names.length - 1);
  const shade = shades?.side === side ? shades.weights : null;
  const isLong = names.length > LONG;
  useEffect(() => {
    if (!shade || box.current.scrollHeight <= box.current.clientHeight + 1) return;
    // scroll to the heaviest word
    const [line, word] = [box.current, box.current.children[shade.indexOf(Math.max(...shade))]];
    line.scrollTop += word.getBoundingClientRect().top - line.getBoundingClientRect().top - line.clientHeight / 2;
  }, [shade]);
  const isIn = (list, place) => list.some((one) => one.side === side && one.place === place);
  const walk = (event) => {
    const words = [...box.current.children].map((one) => one.firstElementChild);
    const here = words.indexOf(document.activeElement);
    const forward = box.current.matches(":dir(rtl)") ? -1 : 1;
    const steps = { ArrowRight: forward, ArrowLeft: -forward, Home: -here, End: words.length - 1 - here };
    if (event.key === "Escape") focus.clear();
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const lines = [...box.current.closest("section").querySelectorAll(".line")];
      lines.find((line) => line !== box.current)?.querySelector("[tabindex='0']")?.focus();
      event.preventDefault();
    }
    if (!(event.key in steps) || here < 0) return;
    words[Math.min(Math.max(here + steps[event.key], 0), words.length - 1)].focus();
    event.preventDefault();
  };
  return html`<div class="side">
    <div class="name"><span>${label}</span>${tools}</div>
    <div class=${`line ${panel.isWords ? "words" : "pieces"}${isLong ? " long" : ""}`} role="toolbar" aria-label=${label}
      dir="auto" lang=${lang} ref=${box} onKeyDown=${walk}>
      ${names.map((name, place) => {
        const isMasked = Boolean(shade) && shades.isMasked(place);
        const ground = shade && !isMasked
          && colour(stops, scale.share(scale.value(shade[place], shades.allowed(place)), top));
        return html`<span class="word" key=${place}><button type="button"
          class=${[panel.specials[side].has(place) && "special",
            isIn(focus.at, place) && "here", isMasked && "masked"].filter(Boolean).join(" ")}
          style=${ground ? { background: css(ground), color: ink(ground) } : {}}
          tabIndex=${place === stop ? 0 : -1} aria-pressed=${String(isIn(focus.pins, place))}
          data-place=${place}
          onPointerEnter=${() => focus.setHover({ side, place })}
          onPointerLeave=${() => focus.setHover(null)}
          onFocus=${() => { setTabbed(place); focus.setHover({ side, place }); }}
          onBlur=${() => focus.setHover(null)}
          onClick=${(event) => focus.toggle(side, place, event.shiftKey)}
          >${name}</button>${notes && html`<small class="label">${notes[place]}</small>`}${hasNumbers && html`<small aria-hidden="true">${
            shade ? (isMasked ? "masked" : written(shade[place])) : " "}</small>`}</span>`;
      })}
    </div></div>`;
}

export function Legend({ top, stops, scale, from = scale?.from ?? "0", name = "weight", hasMasked, note = "",
  digits = written }) {
  return html`<p class="legend"><span>${scale?.unit ?? name} ${from}</span><i style=${{ background: gradient(stops) }}></i>
    <span class="legend-top">${scale?.to ?? digits(top)}</span><span class="quiet">${scale?.name ?? ""}${note}</span>
    ${hasMasked && html`<span><i class="masked-swatch"></i> masked</span>`}</p>`;
}
