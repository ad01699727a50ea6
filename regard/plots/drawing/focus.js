// What the reader points at, pins and prefers.

import { useEffect, useMemo, useState } from "./vendor/preact.js";

// Hover previews, click pins: the focus is the word under the pointer, else the pinned word.
export function useFocus(pinned, setPinned) {
  const [hover, setHover] = useState(null);
  const pins = useMemo(() => readPins(pinned), [pinned]);
  const toggle = (side, place, isAdding) => {
    const isPinned = pins.some((pin) => pin.side === side && pin.place === place);
    const others = isAdding ? pins.filter((pin) => pin.side === side && pin.place !== place) : [];
    setPinned(writePins(isPinned ? others : [...others, { side, place }]));
  };
  const isPinned = hover && pins.some((pin) => pin.side === hover.side && pin.place === hover.place);
  const at = hover && !isPinned ? [hover] : pins;
  return { hover, setHover, pins, toggle, clear: () => setPinned("none"), at };
}

const SIDES = { q: "query", k: "key" };

function readPins(text) {
  return (text ?? "").split(".").map((part) => /^([qk])(\d+)$/.exec(part)).filter(Boolean)
    .map(([, side, place]) => ({ side: SIDES[side], place: Number(place) - 1 }));
}

const writePins = (pins) =>
  pins.map(({ side, place }) => `${side[0]}${place + 1}`).join(".") || "none";

export function useMedia(query) {
  const media = useMemo(() => matchMedia(query), [query]);
  const [matches, setMatches] = useState(media.matches);
  useEffect(() => {
    const changed = () => setMatches(media.matches);
    media.addEventListener("change", changed);
    return () => media.removeEventListener("change", changed);
  }, [media]);
  return matches;
}
