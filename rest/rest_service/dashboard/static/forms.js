// Scripts of the dashboard's forms: ask for confirmation, send the fields as the browser would, and
// show the outcome without leaving the screen. All content of an answer is shown as text. The
// service converts the fields to the body of the API.

const FORMS = "/ui/do/";
const CHECK = "/ui/do/v2/check";
const said = document.getElementById("said");
const asked = document.getElementById("ask");

function say(text, ...more) {
  said.replaceChildren(text, ...more);
}

function isMeant(form) {
  if (!form.elements._ask) return true;
  asked.querySelector("p").textContent = form.elements._ask.value;
  asked.returnValue = "";
  asked.showModal();
  return new Promise((resolve) => {
    asked.addEventListener("close", () => resolve(asked.returnValue === "yes"), { once: true });
  });
}

// Times are entered in the user's time zone; without scripts they are UTC.
function dataOf(form) {
  const data = new FormData(form);
  for (const { name, value } of form.querySelectorAll("[type=datetime-local]")) {
    if (value) data.set(name, new Date(value).toISOString());
  }
  return form.enctype === "multipart/form-data" ? data : new URLSearchParams(data);
}

async function send(path, form) {
  const headers = { Accept: "application/json" };
  const answer = await fetch(path, { method: "POST", headers, body: dataOf(form) });
  return answer.json();
}

function problemsOf(told) {
  if (!told.error) return [];
  const { message, cause, errors = [] } = told.error;
  return errors.length ? errors : [cause ? `${message} ${cause}` : message];
}

function linkTo(crawl) {
  const link = document.createElement("a");
  link.href = `/ui/crawl?${new URLSearchParams(crawl)}`;
  link.textContent = `See crawl ${crawl.crawlid}`;
  return link;
}

function tell(data) {
  if (data?.crawls) say(`${data.fed} fed. `, ...data.crawls.slice(0, 1).map(linkTo), ...(data.warnings ?? []).map((text) => ` ${text}`));
  else if (data?.replayed !== undefined) say(`${data.replayed} replayed.`);
  else if (data?.poll_id) say("Request accepted; the reply takes longer.");
  else say("Done.");
}

async function act(form) {
  if (!(await isMeant(form))) return;
  try {
    const told = await send(form.getAttribute("action"), form);
    const problems = problemsOf(told);
    if (problems.length) say(problems.join("\n"));
    else tell(told.data);
  } catch {
    say("The service does not answer.");
  }
}

// Show each problem next to its field, the others below.
function show(form, problems) {
  const left = [];
  const places = new Map([...form.querySelectorAll("[data-for]")].map((place) => [place.dataset.for, []]));
  for (const problem of problems) {
    const named = /^(?:seed (\d+): )?\$\.(\w+)/.exec(problem);
    const field = named && (named[2] === "url" ? "urls" : named[2]);
    (places.get(field) ?? left).push(problem.replace("$.", ""));
  }
  for (const [name, told] of places) {
    form.querySelector(`[data-for=${name}]`).textContent = told.join("\n");
    form.elements[name].setAttribute("aria-invalid", String(told.length > 0));
  }
  for (const fold of form.querySelectorAll("details")) if (fold.querySelector("[aria-invalid=true]")) fold.open = true;
  form.querySelector("[data-problems]").textContent = left.join("\n");
}

// As the commands and the screens write it.
function lasting(seconds) {
  const left = Math.max(1, Math.floor(seconds));
  if (left < 3600) return left < 60 ? `${left} s` : `${Math.floor(left / 60)} min`;
  const [unit, length, below, smaller] = left < 86400 ? ["h", 3600, "min", 60] : ["d", 86400, "h", 3600];
  const rest = Math.floor((left % length) / smaller);
  return `${Math.floor(left / length)} ${unit}${rest ? ` ${rest} ${below}` : ""}`;
}

// Show the least time that the rules of the sites allow, and what would hold the crawl up.
function estimate(form, data) {
  const slowest = data?.sites?.[0];
  let told = "";
  if (slowest) {
    const count = `${data.good} seed${data.good === 1 ? "" : "s"}`;
    const pace = slowest.seconds_per_page === null ? `${slowest.site} is held back` : `${slowest.site} gives a page each ${slowest.seconds_per_page} s (${slowest.rule})`;
    const whole = data.seconds === null ? "" : ` ${data.pages} page${data.pages === 1 ? "" : "s"}: at least ${lasting(data.seconds)}.`;
    told = `${count}; ${pace}.${whole}`;
  }
  form.querySelector("[data-estimate]").textContent = told;
  form.querySelector("[data-warnings]").textContent = (data?.warnings ?? []).join("\n");
}

async function check(form) {
  try {
    const told = await send(CHECK, form);
    show(form, problemsOf(told));
    estimate(form, told.data);
  } catch {
    show(form, ["The service does not answer."]);
  }
}

async function checkFile(form) {
  const file = form.elements.file.files[0];
  if (!file) return;
  const place = form.querySelector("[data-problems]");
  const preview = form.querySelector("[data-preview]");
  preview.textContent = (await file.slice(0, 20000).text()).split("\n").slice(0, 5).join("\n");
  preview.hidden = false;
  const told = await send(CHECK, form).catch(() => null);
  const problems = told ? problemsOf(told) : ["The service does not answer."];
  place.textContent = problems.map((problem) => problem.replace(/^seed (\d+): /, "row $1: ").replace("$.", "")).join("\n");
  estimate(form, told?.data);
  if (!problems.length) say(`${told.data.good} seeds, all good.`);
}

document.addEventListener("submit", (event) => {
  if (!event.target.getAttribute("action")?.startsWith(FORMS)) return;
  event.preventDefault();
  act(event.target);
});

let typing;
document.addEventListener("input", (event) => {
  const form = event.target.form;
  if (form?.dataset.check === undefined) return;
  clearTimeout(typing);
  typing = setTimeout(form.dataset.file === undefined ? check : checkFile, 300, form);
});

for (const zone of document.querySelectorAll("[data-zone]")) zone.textContent = "your time";

// Choose all available records at once.
for (const all of document.querySelectorAll("[data-all]")) {
  all.hidden = false;
  all.addEventListener("change", ({ target }) => {
    for (const box of all.closest("form").querySelectorAll("[name=record]:enabled")) box.checked = target.checked;
  });
}

// Effect of a rule while it is edited; the page itself shows the effect of the present rule.
const rule = document.getElementById("rule");

function effectOf(form) {
  const { hits, window: length, scale } = form.elements;
  const seconds = Number(length.value);
  if (!hits.value || !seconds) return "enter hits and window";
  const allowed = Math.floor(Number(hits.value) * Math.min(Math.max(Number(scale.value || 1), 0), 1));
  if (!allowed) return "nothing is fetched";
  const rate = allowed / seconds;
  const told = rate >= 1 ? `${Number(rate.toPrecision(3))} requests/s` : `a request each ${Number((1 / rate).toPrecision(3))} s`;
  const waiting = Number(form.dataset.waiting);
  return waiting ? `${told}; ${waiting.toLocaleString("en")} page${waiting === 1 ? "" : "s"} in ${lasting(waiting / rate)}` : told;
}

function sayEffect() {
  rule.querySelector("[data-effect]").textContent = effectOf(rule);
}

function choose(set) {
  const { hits, window: seconds, scale } = rule.elements;
  if (set.scale !== undefined) scale.value = set.scale;
  else if (set.hits > 1 || Number(hits.value) > 1) hits.value = Math.max(1, Math.round(Number(hits.value) * set.hits));
  else seconds.value = Number(seconds.value) / set.hits;
  sayEffect();
}

rule?.addEventListener("input", sayEffect);
for (const choices of document.querySelectorAll("[data-choices]")) {
  choices.hidden = false;
  choices.addEventListener("click", (event) => {
    const set = event.target.closest("[data-set]")?.dataset.set;
    if (set) choose(JSON.parse(set));
  });
}
