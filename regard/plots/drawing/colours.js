// Colours: ramps come from regard/plots/colours.py, by the server or inside the page, as those of figures do.

const parts = (text) => [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16));

export const stopsOf = (ramp) => ramp.map(parts);

// writes into `out`, so that a map of a million cells does not allocate a million arrays
function mix(stops, share, out, first) {
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const left = Math.min(Math.floor(place), stops.length - 2);
  const [low, high] = [stops[left], stops[left + 1]];
  for (let i = 0; i < 3; i += 1) out[first + i] = Math.round(low[i] + (high[i] - low[i]) * (place - left));
  return out;
}

// the colour at a share of the ramp, from 0 to 1
export const colour = (stops, share) => mix(stops, share, [], 0);

export const gradient = (stops) => `linear-gradient(to right, ${stops.map(css).join(",")})`;

export const css = (rgb) => `rgb(${rgb.join(",")})`;

// a colour that hides only a share of what lies below
export const veil = (rgb, share) => `rgba(${rgb.join(",")},${share})`;

// black or white, whichever reads better
export function ink(rgb) {
  const [r, g, b] = rgb.map((part) => part / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff";
}

const FLOOR = 1e-4, LEAST_LIFT = 0.1;
const logarithmic = (value, low, top) =>
  Math.log(Math.max(value, low) / low) / Math.log(Math.max(top, 2 * low) / low);

// how a weight becomes a share of the ramp: `value` is the number that is shown for a weight of a
// query that may see `allowed` keys, and `top` is the largest such value
export const SCALES = {
  linear: { name: "linear", from: "0", value: (weight) => weight, share: (value, top) => value / top },
  root: { name: "square root", from: "0", value: (weight) => weight,
    share: (value, top) => Math.sqrt(Math.max(value, 0) / top) },
  log: { name: "logarithmic", from: `≤ ${FLOOR}`, value: (weight) => weight,
    share: (value, top) => logarithmic(value, FLOOR, top) },
  lift: { name: "lift (times an even share), logarithmic", from: `≤ ${LEAST_LIFT}`, unit: "lift",
    value: (weight, allowed) => weight * allowed,
    share: (value, top) => logarithmic(value, LEAST_LIFT, top) },
};

// the largest weight of a long text is unknown until all of it is drawn, so logarithmic scales end
// where those of Python's `long_overview` end
export const LONG_SCALES = {
  lift: { ...SCALES.lift, to: "≥ 1,000", share: (value) => logarithmic(value, LEAST_LIFT, 1000) },
  log: { ...SCALES.log, name: "weight, logarithmic", from: "≤ 1e-7", to: "1",
    share: (value) => logarithmic(value, 1e-7, 1) },
  root: { ...SCALES.root, name: "weight, square root" },
  linear: { ...SCALES.linear, name: "weight, linear" },
};
export const MASKED = { light: [205, 208, 212], dark: [70, 74, 80] };

// lift is defined only where the numbers of a row are shares of one whole
export const scalesFor = (isShare) => Object.entries(SCALES).filter(([key]) => isShare || key !== "lift");

export const scaleOf = (name, isShare = true) =>
  Object.fromEntries(scalesFor(isShare))[name] ?? SCALES.linear;

// the largest value of a panel on a scale
export function topOf(scale, { weights, allowed }) {
  let most = 0;
  weights.forEach((row, i) => row.forEach((weight) => {
    most = Math.max(most, scale.value(weight, allowed?.[i] ?? row.length));
  }));
  return most || 1;
}

// differences from −top to top, drawn with a ramp of two sides
export const SIGNED = { name: "", value: (weight) => weight, share: (value, top) => 0.5 + value / top / 2 };

// one pixel per cell; masked cells are transparent, so that the background shows
export function paint(canvas, { weights, visible, allowed }, scale, top, stops) {
  const [rows, columns] = [weights.length, weights[0]?.length ?? 0];
  if (!rows || !columns) return;
  Object.assign(canvas, { width: columns, height: rows });
  const context = canvas.getContext("2d"), image = context.createImageData(columns, rows), { data } = image;
  weights.forEach((row, i) => row.forEach((weight, j) => {
    if (visible && !visible[i][j]) return;
    const first = 4 * (i * columns + j);
    mix(stops, scale.share(scale.value(weight, allowed?.[i] ?? columns), top), data, first);
    data[first + 3] = 255;
  }));
  context.putImageData(image, 0, 0);
}
