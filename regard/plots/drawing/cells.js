// Cells over a picture: how much each word weighs them, where they lie, and how they are painted.

import { limited, MEAN, mean, picked } from "./numbers.js";

// for each word, one array of weights per row of cells; layer and head count from 1, or are "mean"
export function mapsOf(record, layer, head) {
  if (layer === MEAN && head === MEAN) return record.mean;
  const some = picked(record.weights, layer, head);
  return record.words.map((_, word) => mean(some.map((maps) => maps[word])).map((row) => [...row]));
}

// the part of the picture that a cell covers, clipped to what the model saw
export function cellBox(record, row, column, { rows, columns } = record.grid) {
  const { covered } = record.grid, { right, bottom } = record.shown;
  const wide = (covered.right - covered.left) / columns, high = (covered.bottom - covered.top) / rows;
  return { left: Math.min(covered.left + column * wide, right), top: Math.min(covered.top + row * high, bottom),
    right: Math.min(covered.left + (column + 1) * wide, right),
    bottom: Math.min(covered.top + (row + 1) * high, bottom) };
}

// the cell under a pointer over the picture; null where the model did not see it
export function cellAt(record, event, area) {
  const { rows, columns, covered } = record.grid, { left, top, right, bottom } = record.shown;
  const frame = area.getBoundingClientRect();
  const x = (event.clientX - frame.left) / frame.width * record.picture.width;
  const y = (event.clientY - frame.top) / frame.height * record.picture.height;
  if (x < left || x >= right || y < top || y >= bottom) return null;
  return { row: limited(Math.floor((y - covered.top) / (covered.bottom - covered.top) * rows), rows),
    column: limited(Math.floor((x - covered.left) / (covered.right - covered.left) * columns), columns) };
}

// where a rectangle of the picture lies on a canvas
export function spotOf(record, canvas, { left, top, right, bottom }) {
  const x = canvas.width / record.picture.width, y = canvas.height / record.picture.height;
  return { left: left * x, top: top * y, right: right * x, bottom: bottom * y };
}

export const shareOf = (weight, top) => Math.min(Math.max(weight / (top || 1), 0), 1);

// `styleOf` gives the fill style of a cell by its share of the largest weight
export function paintCells(record, context, map, top, styleOf) {
  const size = { rows: map.length, columns: map[0].length };
  map.forEach((cells, row) => cells.forEach((weight, column) => {
    const spot = spotOf(record, context.canvas, cellBox(record, row, column, size));
    // whole pixels, so that neighbours neither overlap nor leave a gap
    const [x, y, end, low] = [spot.left, spot.top, spot.right, spot.bottom].map(Math.round);
    context.fillStyle = styleOf(shareOf(weight, top));
    context.fillRect(x, y, end - x, low - y);
  }));
}
