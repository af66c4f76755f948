// Charts of the screen: each <div class="plot"> names the columns of the points that it shows.

const DAY_S = 86400;
const points = [];
const charts = [...document.querySelectorAll(".plot")].map((place) => ({ place, plot: null }));
// Why a chart has no line yet, as the page says it.
const words = new Map(charts.map(({ place }) => [place, place.textContent]));

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function axis(size) {
  const grid = { stroke: colour("line"), width: 1 };
  return { stroke: colour("quiet"), grid, ticks: { show: false }, font: "11px system-ui", size };
}

function compact(_plot, values) {
  const format = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
  return values.map((value) => format.format(value));
}

function time(plot, values) {
  const isLong = plot.scales.x.max - plot.scales.x.min >= DAY_S;
  const day = { weekday: "short", hour: "2-digit", minute: "2-digit" };
  const at = (value) => new Date(value * 1000);
  return values.map((value) => (isLong ? at(value).toLocaleString("en-GB", day) : at(value).toTimeString().slice(0, 8)));
}

// A value between two gaps is drawn as a dot, because it makes no line.
function lonely(plot, number) {
  const values = plot.data[number];
  const isLonely = (at) => values[at] != null && values[at - 1] == null && values[at + 1] == null;
  return values.map((_value, at) => at).filter(isLonely);
}

function line(name, tone, isFilled) {
  const points = { show: true, filter: lonely, size: 4, fill: colour(tone) };
  return { label: name, stroke: colour(tone), fill: isFilled ? colour(tone) : undefined, width: 1.5, spanGaps: false, points };
}

// Show the values under the pointer next to the title.
function say(plot, said) {
  const at = plot.cursor.idx;
  const point = points[at];
  const columns = columnsOf(plot.root.parentElement);
  const values = columns.map((column) => (point?.[column] ?? "none").toLocaleString("en"));
  said.textContent = point ? `${time(plot, [point[0]])[0]}: ${values.join(", ")}` : "";
}

function columnsOf(place) {
  return place.dataset.columns.split(",").map(Number);
}

function times(place) {
  const { since, span } = place.dataset;
  return (_plot, first, last) => [Number(since) || (span ? last - span : first), last];
}

function top(_plot, _low, high) {
  return [0, high > 0 ? high * 1.1 : 1];
}

function make(place) {
  const names = place.dataset.names.split(",");
  const tones = place.dataset.tones.split(",");
  const said = place.parentElement.querySelector("output");
  const hasLegend = names.length > 1;
  const isStacked = place.dataset.stacked !== undefined;
  place.replaceChildren();
  const options = {
    width: place.clientWidth,
    height: place.clientHeight - (hasLegend ? 24 : 0),
    legend: { show: hasLegend, live: false },
    hooks: { setCursor: [(plot) => say(plot, said)] },
    series: [{}, ...names.map((name, number) => line(name, tones[number], isStacked))],
    axes: [{ ...axis(24), values: time, space: 80 }, { ...axis(44), values: compact, space: 32 }],
    scales: { x: { range: times(place) }, y: { range: place.dataset.top ? [0, Number(place.dataset.top)] : top } },
    cursor: { sync: { key: "cluster" }, drag: { x: false, y: false } },
  };
  return new uPlot(options, dataOf(place), place);
}

// In a stacked chart, each column is added to the columns after it.
function dataOf(place) {
  const columns = columnsOf(place);
  const values = columns.map((column) => points.map((point) => point[column]));
  if (place.dataset.stacked !== undefined) {
    for (let at = values.length - 2; at >= 0; at--) values[at] = values[at].map((value, index) => value + values[at + 1][index]);
  }
  return [points.map((point) => point[0]), ...values];
}

function hasData(place) {
  const columns = columnsOf(place);
  const isThere = place.dataset.stacked === undefined ? (value) => value != null : (value) => value > 0;
  return points.length > 1 && points.some((point) => columns.some((column) => isThere(point[column])));
}

function empty({ place }) {
  const told = document.createElement("p");
  told.className = "quiet";
  told.textContent = words.get(place);
  place.replaceChildren(told);
}

function forget() {
  const spans = charts.map(({ place }) => Number(place.dataset.span));
  const oldest = points[points.length - 1]?.[0] - Math.max(...spans);
  while (spans.every(Boolean) && points.length && points[0][0] < oldest) points.shift();
}

export function draw(fresh) {
  const last = points.length ? points[points.length - 1][0] : 0;
  points.push(...fresh.filter((point) => point[0] > last));
  forget();
  for (const chart of charts) {
    if (chart.plot) chart.plot.setData(dataOf(chart.place));
    else if (hasData(chart.place)) chart.plot = make(chart.place);
  }
}

function redraw() {
  for (const chart of charts) {
    chart.plot?.destroy();
    chart.plot = hasData(chart.place) ? make(chart.place) : null;
    if (!chart.plot) empty(chart);
  }
}

charts.forEach(empty);
let resizing;
addEventListener("resize", () => {
  clearTimeout(resizing);
  resizing = setTimeout(redraw, 150);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
