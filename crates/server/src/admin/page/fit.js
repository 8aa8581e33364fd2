// URLs in the room that there is for them.

import { say } from "./dom.js";
import { brief } from "./format.js";

/** Letters of a URL whose room is not known, and the least of any. */
const USUAL = 42, LEAST = 12;
const pen = document.createElement("canvas").getContext("2d");

/** Shows `url` in a cell, or in what stands in the cell, and shortens it as far as the cell is narrow. */
export function fit(place, url) {
  const cell = place.closest("th, td"), frame = place.closest(".scroll");
  // A text that is too long widens its cell.
  const right = Math.min(...[cell, frame].map((box) => box.getBoundingClientRect().right));
  const room = right - parseFloat(getComputedStyle(cell).paddingRight) - place.getBoundingClientRect().left;
  say(place, brief(url, room > 0 ? letters(place, url, room - 1) : USUAL));
}

/** How many letters fit: the most whose text is not wider. */
function letters(place, url, room) {
  const { fontWeight, fontSize, fontFamily } = getComputedStyle(place);
  pen.font = `${fontWeight} ${fontSize} ${fontFamily}`;
  let [least, most] = [LEAST, url.length];
  while (least < most) {
    const half = Math.ceil((least + most) / 2);
    if (pen.measureText(brief(url, half)).width <= room) least = half;
    else most = half - 1;
  }
  return least;
}
