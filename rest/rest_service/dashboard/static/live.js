// Keeps the live part of a screen as the server renders it. Unchanged elements stay, so that
// neither focus nor a selection is lost.

import { draw } from "./charts.js";
import "./forms.js";
import { nameCells } from "./tables.js";

nameCells(document);

const live = document.querySelector("[data-live]");
const link = document.getElementById("link");

function isSame(old, fresh) {
  return old.nodeName === fresh.nodeName && old.id === fresh.id;
}

function morph(old, fresh) {
  if (old.dataset?.keep !== undefined || old.isEqualNode(fresh)) return;
  if (!isSame(old, fresh)) {
    old.replaceWith(fresh);
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    old.nodeValue = fresh.nodeValue;
    return;
  }
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  morphChildren(old, fresh);
}

// Rows are matched by data-key in any order, so that the focus stays on its row.
function morphChildren(old, fresh) {
  const keyed = new Map([...old.children].map((child) => [child.dataset.key, child]));
  let at = old.firstChild;
  for (const next of [...fresh.childNodes]) {
    const key = next.dataset?.key;
    const unkeyed = at && at.dataset?.key === undefined ? at : null;
    const known = key === undefined ? unkeyed : keyed.get(key);
    if (!known) {
      old.insertBefore(next, at);
      continue;
    }
    if (known === at) at = at.nextSibling;
    else old.insertBefore(known, at);
    morph(known, next);
  }
  while (at) {
    const after = at.nextSibling;
    at.remove();
    at = after;
  }
}

function renew(html) {
  const focused = document.activeElement;
  const fresh = new DOMParser().parseFromString(html, "text/html").body;
  nameCells(fresh);
  morphChildren(live, fresh);
  if (live.contains(focused) && focused !== document.activeElement) focused.focus({ preventScroll: true });
}

function say(text, state) {
  link.textContent = text;
  link.className = state;
}

function watch() {
  const stream = new EventSource(location.href);
  stream.addEventListener("open", () => say("live", "up"));
  stream.addEventListener("error", () => {
    const isOver = stream.readyState === EventSource.CLOSED;
    say(isOver ? "not live: reload to try again" : "connection lost", "lost");
  });
  stream.addEventListener("live", (event) => renew(event.data));
  stream.addEventListener("series", (event) => draw(JSON.parse(event.data)));
  return stream;
}

if (live) {
  // The parser drops whitespace at the beginning of the content sent.
  if (live.firstChild?.nodeType === Node.TEXT_NODE) live.firstChild.remove();
  let stream = watch();
  // A hidden page has no stream, so it costs nothing.
  document.addEventListener("visibilitychange", () => {
    stream.close();
    if (document.hidden) say("paused", "");
    else stream = watch();
  });
}
