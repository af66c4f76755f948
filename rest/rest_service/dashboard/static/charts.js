// Charts of the screen: each <div class="plot"> names its columns of the points that come.

const KEPT_S = 900;
const points = [];
const charts = [...document.querySelectorAll(".plot")].map((place) => ({ place, plot: null }));

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

function time(_plot, values) {
  return values.map((value) => new Date(value * 1000).toTimeString().slice(0, 8));
}

function line(name, tone) {
  return { label: name, stroke: colour(tone), width: 1.5, spanGaps: true, points: { show: false } };
}

// What stands under the pointer is said beside the title.
function say(plot, said) {
  const at = plot.cursor.idx;
  const told = plot.data.map((column) => column[at]);
  const values = told.slice(1).map((value) => (value ?? "none").toLocaleString("en"));
  said.textContent = at === null || at === undefined ? "" : `${time(plot, [told[0]])[0]}: ${values.join(", ")}`;
}

function top(_plot, _low, high) {
  return [0, high > 0 ? high * 1.1 : 1];
}

function make(place) {
  const names = place.dataset.names.split(",");
  const tones = place.dataset.tones.split(",");
  const said = place.parentElement.querySelector("output");
  const hasLegend = names.length > 1;
  const options = {
    width: place.clientWidth,
    height: place.clientHeight - (hasLegend ? 24 : 0),
    legend: { show: hasLegend, live: false },
    hooks: { setCursor: [(plot) => say(plot, said)] },
    series: [{}, ...names.map((name, number) => line(name, tones[number]))],
    axes: [{ ...axis(24), values: time, space: 80 }, { ...axis(44), values: compact, space: 32 }],
    scales: { y: { range: place.dataset.top ? [0, Number(place.dataset.top)] : top } },
    cursor: { sync: { key: "cluster" }, drag: { x: false, y: false } },
  };
  return new uPlot(options, dataOf(place), place);
}

function dataOf(place) {
  const columns = [0, ...place.dataset.columns.split(",").map(Number)];
  return columns.map((column) => points.map((point) => point[column]));
}

export function draw(fresh) {
  const last = points.length ? points[points.length - 1][0] : 0;
  points.push(...fresh.filter((point) => point[0] > last));
  const isWhole = charts.some(({ place }) => place.dataset.whole !== undefined);
  while (!isWhole && points.length && points[0][0] < points[points.length - 1][0] - KEPT_S) points.shift();
  for (const chart of charts) {
    if (chart.plot) chart.plot.setData(dataOf(chart.place));
    else chart.plot = make(chart.place);
  }
}

function redraw() {
  for (const chart of charts) {
    chart.plot?.destroy();
    chart.plot = points.length ? make(chart.place) : null;
  }
}

let resizing;
addEventListener("resize", () => {
  clearTimeout(resizing);
  resizing = setTimeout(redraw, 150);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
