// The colours of weights: one choice for the page, the figures that are saved, and every other view.

import { html } from "../drawing/vendor/preact.js";
import { gradient, stopsOf } from "../drawing/colours.js";
import { Select } from "../drawing/controls.js";
import { Group } from "../drawing/side_panel.js";

export function ColourMaps({ ramps: { maps, weights }, params, change }) {
  const ramp = maps[params.map]?.ramp ?? weights;
  return html`<${Group} title="Colours"><div class="bar"><${Select} label="colour map" value=${params.map in maps ? params.map : ""}
      options=${[["", "regard's"], ...Object.entries(maps).map(([key, { name }]) => [key, name])]}
      onChange=${(map) => change({ map })} /><i class="ramp" style=${{ background: gradient(stopsOf(ramp)) }}></i></div></${Group}>`;
}
