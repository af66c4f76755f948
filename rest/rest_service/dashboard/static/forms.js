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
  return input.dataset.kind === "truth" ? input.value === "true" : input.value;
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
    const { urls = "", ...shared } = fields;
    const lines = urls.split("\n").map((line) => line.trim()).filter(Boolean);
    return (lines.length ? lines : [""]).map((url) => (url ? { url, ...shared } : shared));
  }
  if (form.dataset.name) delete fields[form.dataset.name];
  return fields;
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
  await attempt(form.dataset.method, pathOf(form), JSON.stringify(bodyOf(form)));
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
  form.querySelector("[data-problems]").textContent = left.join("\n");
}

async function check(form) {
  try {
    show(form, problemsOf(await call("POST", form.dataset.check, JSON.stringify(bodyOf(form)))));
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
  const told = await call("POST", form.dataset.check, file, kindOf(file)).catch(() => null);
  const problems = told ? problemsOf(told) : ["The service does not answer."];
  place.textContent = problems.join("\n");
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

// "Edit" brings a row's values into the form below.
document.addEventListener("click", (event) => {
  const values = event.target.closest("[data-fill]")?.dataset.fill;
  if (!values) return;
  const form = document.getElementById("rule");
  for (const [name, value] of Object.entries(JSON.parse(values))) form.elements[name].value = value;
  form.elements.hits.focus();
});
