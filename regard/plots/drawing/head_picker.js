// Every head as a small map in a grid, layers down and heads across: one click shows it.

import { html, useRef } from "./vendor/preact.js";
import { Thumb, thumbsOf, walked } from "./heads.js";
import { MEAN, named } from "./numbers.js";

const SIZE = 32, MOST = 256;

export function HeadPicker({ one, numbers, view, scale, stops, choose }) {
  const box = useRef(null);
  const [layers, heads] = [one.n_layers, one.n_heads];
  const { parts, top } = thumbsOf(one, numbers, scale, SIZE);
  if (layers * heads < 2 || layers * heads > MOST) return null;
  // the first head has the Tab stop while a mean is shown
  const [at, place] = [view.layer, view.head].map((each) => (each === MEAN ? 0 : each));
  return html`<div class="picker" role="group" aria-label="choose a head" style=${{ "--heads": heads }} ref=${box}
    onKeyDown=${(event) => walked(event, [...box.current.children], heads)}>
    ${[...Array(layers).keys()].flatMap((layer) => [...Array(heads).keys()].map((head) => html`<button type="button"
      key=${`${layer}.${head}`} tabIndex=${layer === at && head === place ? 0 : -1}
      aria-pressed=${String(layer === view.layer && head === view.head)}
      aria-label=${`${named("layer", layer)}, ${named("head", head)}`} title=${`${named("layer", layer)}, ${named("head", head)}`}
      onClick=${() => (layer === view.layer && head === view.head ? choose(MEAN, MEAN) : choose(layer, head))}
      ><${Thumb} part=${parts[layer][head]} scale=${scale} top=${top} stops=${stops} /></button>`))}</div>`;
}
