// Colours: ramps come from the server, which has them from the same table as Python's figures.

const parts = (text) => [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16));

export const stopsOf = (ramp) => ramp.map(parts);

export function colour(stops, share) {
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const left = Math.min(Math.floor(place), stops.length - 2);
  return stops[left].map((low, i) => Math.round(low + (stops[left + 1][i] - low) * (place - left)));
}

export const css = (rgb) => `rgb(${rgb.join(",")})`;

// black or white, whichever reads better
export function ink(rgb) {
  const [r, g, b] = rgb.map((part) => part / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff";
}

const FLOOR = 1e-4, LEAST_LIFT = 0.1;
const logarithmic = (value, low, top) =>
  Math.log(Math.max(value, low) / low) / Math.log(Math.max(top, 2 * low) / low);

// how a weight becomes a share of the ramp: `value` is what is shown of it, where a query may see
// `allowed` keys, and `top` the largest value that there is
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

// lift means something for shares of one whole alone
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

// the share of the ramp of each cell of a panel
export const shareOf = (scale, panel, top) => (weight, i) =>
  scale.share(scale.value(weight, panel.allowed?.[i] ?? panel.keys.length), top);

export const signed = (difference, top) => 0.5 + difference / top / 2;

// one pixel a cell; one that is masked has no colour, so that what lies behind it is seen
export function paint(canvas, weights, share, stops, visible = null) {
  const [rows, columns] = [weights.length, weights[0]?.length ?? 0];
  if (!rows || !columns) return;
  Object.assign(canvas, { width: columns, height: rows });
  const context = canvas.getContext("2d"), image = context.createImageData(columns, rows);
  weights.forEach((row, i) => row.forEach((weight, j) => {
    if (visible && !visible[i][j]) return;
    image.data.set([...colour(stops, share(weight, i)), 255], 4 * (i * columns + j));
  }));
  context.putImageData(image, 0, 0);
}
