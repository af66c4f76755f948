"use strict";

// What the server has rendered is renewed as a whole; nothing is put together here, and whatever
// an answer says is shown as text.

const EVERY_MS = 2000;
const said = document.getElementById("said");

async function renew() {
  const live = document.querySelector("[data-live]");
  if (!live || document.hidden || live.contains(document.activeElement)) return;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById(live.id);
    if (fresh) live.replaceWith(document.adoptNode(fresh));
  } catch {
    // The service is away: the next look may find it again.
  }
}

function valueOf(input) {
  return input.type === "number" ? Number(input.value) : input.value;
}

function fieldsOf(form) {
  const inputs = [...form.querySelectorAll("input[name]")].filter((input) => input.value !== "");
  return Object.fromEntries(inputs.map((input) => [input.name, valueOf(input)]));
}

async function call(method, path, fields) {
  const answer = await fetch(path, {
    method,
    headers: { "Content-Type": "application/json", Accept: "application/json" },
    body: method === "DELETE" ? undefined : JSON.stringify(fields),
  });
  return answer.json();
}

function problemsOf(told) {
  return told.error ? [told.error.message, ...(told.error.errors ?? [])].join("\n") : "";
}

async function act(form) {
  if (form.dataset.confirm && !confirm(form.dataset.confirm)) return;
  const fields = fieldsOf(form);
  let path = form.dataset.api;
  if (form.dataset.name) {
    path += encodeURIComponent(fields[form.dataset.name]);
    delete fields[form.dataset.name];
  }
  try {
    const problems = problemsOf(await call(form.dataset.method, path, fields));
    said.textContent = problems || "Done.";
    said.className = problems ? "bad" : "";
  } catch {
    said.textContent = "The service does not answer.";
    said.className = "bad";
  }
  renew();
}

async function check(form) {
  const shown = form.querySelector("[data-problems]");
  try {
    shown.textContent = problemsOf(await call("POST", form.dataset.check, fieldsOf(form)));
  } catch {
    shown.textContent = "";
  }
}

for (const form of document.querySelectorAll("form[data-api]")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    act(form);
  });
  if (!form.dataset.check) continue;
  let waiting;
  form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(check, 300, form);
  });
}

setInterval(renew, EVERY_MS);
