// What the forms of the dashboard do: ask whether it is meant, call the API, say what came of it.
// Whatever an answer says is shown as text.

const said = document.getElementById("said");
const asked = document.getElementById("ask");

function say(text, ...more) {
  said.replaceChildren(text, ...more);
}

function isMeant(form) {
  if (!form.dataset.confirm) return true;
  asked.querySelector("p").textContent = form.dataset.confirm;
  asked.returnValue = "";
  asked.showModal();
  return new Promise((resolve) => {
    asked.addEventListener("close", () => resolve(asked.returnValue === "yes"), { once: true });
  });
}

function valueOf(input) {
  if (input.type === "number") return Number(input.value);
  const read = KINDS[input.dataset.kind];
  return read ? read(input.value) : input.value;
}

function linesOf(text) {
  return text.split("\n").map((line) => line.trim()).filter(Boolean);
}

function pairOf(line) {
  const at = line.indexOf(":");
  return at < 0 ? [line, ""] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
}

// What is no JSON is sent as it is: the service says what is wrong with it.
function jsonOf(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

const KINDS = {
  truth: (text) => text === "true",
  lines: linesOf,
  pairs: (text) => Object.fromEntries(linesOf(text).map(pairOf)),
  json: jsonOf,
  ahead: (text) => Math.floor(Date.now() / 1000) + Number(text),
  time: (text) => Math.floor(new Date(text).getTime() / 1000),
};

function urlOf(text) {
  try {
    return new URL(text);
  } catch {
    return null;
  }
}

// Where links may lead, unless it is said otherwise: to the hosts of the URLs, or below them.
function scoped(scope, urls, fields) {
  if (scope === "any" || fields.allowed_domains || fields.allow_regex) return fields;
  const found = urls.map((url) => urlOf(url.includes("://") ? url : `http://${url}`)).filter(Boolean);
  const hosts = [...new Set(found.map((url) => url.hostname).filter(Boolean))];
  if (!hosts.length) return fields;
  const below = { ...fields, allowed_domains: hosts };
  if (scope !== "prefix") return below;
  const folders = found.map((url) => url.href.split(/[?#]/)[0].replace(/[^/]*$/, ""));
  return { ...below, allow_regex: [...new Set(folders)].map((folder) => `^${folder.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}`) };
}

function fieldsOf(form) {
  const inputs = [...form.querySelectorAll("[name]:not([type=checkbox])")].filter((input) => input.value !== "");
  return Object.fromEntries(inputs.map((input) => [input.name, valueOf(input)]));
}

// What a form says, as the body of a request: seeds, records, or just its fields.
function bodyOf(form) {
  const fields = fieldsOf(form);
  if (form.dataset.body === "records") {
    const chosen = [...form.querySelectorAll("[name=record]")].filter((box) => box.checked || box.type === "hidden");
    const places = chosen.map((box) => box.value.split(":").map(Number));
    return { records: places.map(([partition, offset]) => ({ partition, offset })) };
  }
  if (form.dataset.body === "seeds") {
    const { urls = "", scope, ...rest } = fields;
    const lines = linesOf(urls);
    const shared = scoped(scope, lines, rest);
    return (lines.length ? lines : [""]).map((url) => (url ? { url, ...shared } : shared));
  }
  if (form.dataset.name) delete fields[form.dataset.name];
  return fields;
}

function textOf(form) {
  return form.dataset.body === "raw" ? form.elements.raw.value : JSON.stringify(bodyOf(form));
}

function pathOf(form) {
  const named = form.dataset.name ? fieldsOf(form)[form.dataset.name] ?? "" : "";
  return form.dataset.api + encodeURIComponent(named);
}

async function call(method, path, body, kind = "application/json") {
  const answer = await fetch(path, {
    method,
    headers: { "Content-Type": kind, Accept: "application/json" },
    body: method === "DELETE" ? undefined : body,
  });
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
  if (data?.crawls) say(`${data.fed} fed. `, ...data.crawls.slice(0, 1).map(linkTo));
  else if (data?.replayed !== undefined) say(`${data.replayed} replayed.`);
  else if (data?.poll_id) say("Request accepted; the reply takes longer.");
  else say("Done.");
}

async function attempt(method, path, body, kind) {
  try {
    const told = await call(method, path, body, kind);
    const problems = problemsOf(told);
    if (problems.length) say(problems.join("\n"));
    else tell(told.data);
  } catch {
    say("The service does not answer.");
  }
}

async function act(form) {
  if (!(await isMeant(form))) return;
  await attempt(form.dataset.method, pathOf(form), textOf(form));
}

// Each problem beside the field that it is about, the rest below.
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

function lasting(seconds) {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

// How long it takes at least, by the rules of the sites.
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
}

function warnOfAbsence(form) {
  const place = form.querySelector("[data-alive]");
  if (!place) return;
  const alive = linesOf(place.dataset.alive);
  const spider = form.elements.spiderid.value;
  const running = `Running: ${alive.join(", ") || "none"}`;
  place.textContent = alive.includes(spider) ? running : `No crawler of ${spider} is running: the crawl would wait. ${running}`;
}

async function check(form) {
  warnOfAbsence(form);
  try {
    const told = await call("POST", form.dataset.check, textOf(form));
    show(form, problemsOf(told));
    estimate(form, told.data);
  } catch {
    show(form, ["The service does not answer."]);
  }
}

function kindOf(file) {
  return file.name.endsWith(".csv") ? "text/csv" : file.name.endsWith(".json") ? "application/json" : "application/x-ndjson";
}

async function checkFile(form) {
  const file = form.elements.file.files[0];
  if (!file) return;
  const place = form.querySelector("[data-problems]");
  const preview = form.querySelector("[data-preview]");
  preview.textContent = (await file.slice(0, 20000).text()).split("\n").slice(0, 5).join("\n");
  preview.hidden = false;
  const told = await call("POST", form.dataset.check, file, kindOf(file)).catch(() => null);
  const problems = told ? problemsOf(told) : ["The service does not answer."];
  place.textContent = problems.map((problem) => problem.replace(/^seed (\d+): /, "row $1: ").replace("$.", "")).join("\n");
  estimate(form, told?.data);
  if (!problems.length) say(`${told.data.good} seeds, all good.`);
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.dataset.upload) {
    event.preventDefault();
    const file = form.elements.file.files[0];
    attempt("POST", form.dataset.upload, file, kindOf(file));
  } else if (form.dataset.api) {
    event.preventDefault();
    act(form);
  }
});

let typing;
document.addEventListener("input", (event) => {
  const form = event.target.form;
  if (!form?.dataset.check) return;
  clearTimeout(typing);
  typing = setTimeout(form.dataset.upload ? checkFile : check, 300, form);
});

// All records that can be chosen, at once.
for (const all of document.querySelectorAll("[data-all]")) {
  all.hidden = false;
  all.addEventListener("change", ({ target }) => {
    for (const box of all.closest("form").querySelectorAll("[name=record]:enabled")) box.checked = target.checked;
  });
}

// What a rule comes to, while it is typed; the page itself says what it comes to now.
const rule = document.getElementById("rule");

function effectOf(form) {
  const { hits, window: seconds, scale = 1 } = fieldsOf(form);
  if (hits === undefined || !seconds) return "enter hits and window";
  const allowed = Math.floor(hits * Math.min(Math.max(scale, 0), 1));
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
