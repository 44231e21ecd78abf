// Line plots in SVG: time to the right, one line a series, a fixed size so that nothing moves.

const NS = "http://www.w3.org/2000/svg";
const HEIGHT = 144;
const LEFT = 48;
const TOP = 8;
const BOTTOM = 16;
const COLORS = ["#1f78b4", "#d9701f", "#2f9e44", "#b14fc5", "#c2255c", "#0b9aa0", "#a8871a", "#6f6f9c"];

// lines that can be told apart
export const SERIES_MAX = COLORS.length;
export const colorOf = (index) => COLORS[index % COLORS.length];

// A round number that is at least `value`: 1, 2 or 5 times a power of ten.
export function ceiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find((step) => step * power >= value) * power;
}

export function short(value) {
  if (value >= 1e6) return `${+(value / 1e6).toFixed(1)} M`;
  if (value >= 1e4) return `${+(value / 1e3).toFixed(1)} k`;
  return `${+value.toPrecision(3)}`;
}

function element(name, attributes, text) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// series: arrays of [seconds, value or null], oldest first; spanS: seconds that are shown, up to nowS.
export function draw(svg, series, nowS, spanS) {
  const width = svg.clientWidth;
  svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  const values = series.flat().map(([, value]) => value).filter((value) => value !== null);
  const top = ceiling(Math.max(...values, 0));
  const x = (atS) => LEFT + ((atS - nowS + spanS) / spanS) * (width - LEFT);
  const y = (value) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
  const parts = [0, top / 2, top].flatMap((value) => [
    element("line", { class: "grid", x1: LEFT, x2: width, y1: y(value), y2: y(value) }),
    element("text", { x: 0, y: y(value) + 4 }, short(value)),
  ]);
  series.forEach((points, index) => {
    // A missing value is a gap: a line for each run between two of them.
    const runs = [[]];
    for (const [atS, value] of points) {
      if (value === null) runs.push([]);
      else runs.at(-1).push(`${x(atS).toFixed(1)},${y(value).toFixed(1)}`);
    }
    for (const run of runs.filter((each) => each.length > 1)) {
      parts.push(element("polyline", { points: run.join(" "), stroke: colorOf(index), "data-series": index }));
    }
  });
  svg.replaceChildren(...parts);
}
