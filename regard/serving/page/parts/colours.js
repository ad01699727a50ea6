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

// how a weight becomes a share of the ramp
export const SCALES = {
  linear: { name: "linear", share: (weight, top) => weight / top },
  root: { name: "square root", share: (weight, top) => Math.sqrt(Math.max(weight, 0) / top) },
};

export const scaleOf = (name) => SCALES[name] ?? SCALES.linear;

export const signed = (difference, top) => 0.5 + difference / top / 2;

// one pixel a cell
export function paint(canvas, weights, share, stops) {
  const [rows, columns] = [weights.length, weights[0]?.length ?? 0];
  if (!rows || !columns) return;
  Object.assign(canvas, { width: columns, height: rows });
  const context = canvas.getContext("2d"), image = context.createImageData(columns, rows);
  weights.forEach((row, i) => row.forEach((weight, j) => {
    image.data.set([...colour(stops, share(weight)), 255], 4 * (i * columns + j));
  }));
  context.putImageData(image, 0, 0);
}
