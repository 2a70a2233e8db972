"use strict";
// An answer is kept here until the server says that it is saved; it is sent again, under the same name, until then.
const $ = (id) => document.getElementById(id);
const token = location.pathname.startsWith("/p/") ? location.pathname.slice(3) : null;
const WAITS = [1000, 2000, 4000, 8000, 15000];
const EARLY = 250; // a key pressed so soon after an item came was meant for the one before
let state = null;   // what the server said last
let item = null;    // what is in sight
let since = 0;      // when it came in sight
let pending = null; // the answer that is not saved yet
let wake = null;    // ends the wait before the next try
let seenParts = new Set();

const memory = {
  name: "aimwise-study:" + (token || "start"),
  held: null,
  get() { try { return JSON.parse(localStorage.getItem(this.name)); } catch { return this.held; } },
  set(value) { this.held = value; try { localStorage.setItem(this.name, JSON.stringify(value)); } catch { /* kept in memory */ } },
  drop(client) {
    const held = this.get();
    if (held && held.client !== client) return; // another tab's
    this.held = null;
    try { localStorage.removeItem(this.name); } catch { /* was in memory */ }
  },
};

class Refusal extends Error {}

function made() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}

async function asked(path, method = "GET", body = undefined) {
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(), 10000);
  try {
    const headers = body ? { "content-type": "application/json" } : {};
    const answer = await fetch(path, { method, headers, body: body && JSON.stringify(body), signal: stop.signal, cache: "no-store" });
    const said = await answer.json();
    if (answer.ok) return said;
    if (answer.status >= 500 || answer.status === 408 || answer.status === 429) throw new Error(said.error);
    const refusal = new Refusal(said.error);
    refusal.status = answer.status;
    throw refusal;
  } finally {
    clearTimeout(timer);
  }
}

// Asks until there is an answer; what is not the connection's fault is thrown.
async function surely(path, method, body, why) {
  for (let tries = 0; ; tries++) {
    try {
      const said = await asked(path, method, body);
      $("trouble").hidden = true;
      return said;
    } catch (e) {
      if (e instanceof Refusal) { $("trouble").hidden = true; throw e; }
      if ($("trouble").hidden) { say(""); $("trouble-text").textContent = why; $("trouble").hidden = false; }
      await new Promise((go) => { wake = go; setTimeout(go, WAITS[Math.min(tries, WAITS.length - 1)]); });
    }
  }
}

function only(id, focus = null) {
  for (const each of ["consent", "item", "pause", "done", "problem"]) $(each).hidden = each !== id;
  if (focus) $(focus).focus();
}

function problem(e) {
  $("why").textContent = e.message;
  say("");
  only("problem", "problem-head");
}

async function consent() {
  const study = await surely("/api/study", "GET", undefined, "No connection. Trying again…");
  document.title = $("title").textContent = study.title;
  for (const part of study.consent.split(/\n\s*\n/)) {
    const p = document.createElement("p");
    p.textContent = part.replace(/\s+/g, " ").trim();
    $("consent-text").append(p);
  }
  $("agree").addEventListener("change", () => { $("begin").disabled = !$("agree").checked; });
  $("begin").addEventListener("click", begin);
  only("consent");
}

async function begin() {
  $("begin").disabled = true;
  let start = null;
  try { start = sessionStorage.getItem("aimwise-study-start"); } catch { /* made anew */ }
  start = start || made();
  try { sessionStorage.setItem("aimwise-study-start", start); } catch { /* for this page only */ }
  try {
    const why = "No connection: you have not begun yet. Trying again…";
    const said = await surely("/api/participants", "POST", { consent: true, start }, why);
    try { sessionStorage.removeItem("aimwise-study-start"); } catch { /* nothing to remove */ }
    location.replace("/p/" + said.token);
  } catch (e) { problem(e); }
}

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function drawn(kind, shown) {
  if (kind === "image") {
    const picture = element("img");
    picture.src = shown;
    picture.alt = "Parts of a picture; the rest of it is grey";
    return picture;
  }
  if (kind === "table") {
    const table = element("table"), body = element("tbody");
    for (const [name, value] of shown) {
      const row = element("tr"), head = element("th", name);
      head.scope = "row";
      row.append(head, element("td", value));
      body.append(row);
    }
    table.append(body);
    return table;
  }
  const list = element("ul");
  list.setAttribute("aria-label", "Key words");
  for (const word of shown) list.append(element("li", word));
  return list;
}

function choiceButtons() {
  const all = state.choices.map((name, i) => [i, name, i < 9 ? String(i + 1) : ""]);
  all.push([-1, state.neutral, "0"]);
  $("choices").replaceChildren(...all.map(([choice, name, key]) => {
    const button = element("button", undefined, choice < 0 ? "neutral" : "");
    button.type = "button";
    button.dataset.choice = choice;
    if (key) { button.dataset.key = key; button.setAttribute("aria-keyshortcuts", key); }
    if (key) { const mark = element("kbd", key); mark.setAttribute("aria-hidden", "true"); button.append(mark); }
    button.append(name);
    button.addEventListener("click", () => choose(choice));
    return button;
  }));
}

function say(text, saved = true) {
  $("status").classList.toggle("open", !saved);
  $("status").textContent = text;
}

function busy(yes) {
  for (const button of $("choices").children) button.setAttribute("aria-disabled", String(yes));
}

function show(next, focus = true) {
  item = next;
  since = performance.now();
  $("where").textContent = `${item.place + 1} of ${item.of}` + (state.sections > 1 ? `, part ${item.section + 1} of ${state.sections}` : "");
  $("bar").max = state.total;
  $("bar").value = state.answered;
  $("shown").replaceChildren(drawn(state.kind, item.shown));
  const before = item.choice !== null;
  $("onward").hidden = !before;
  $("before").textContent = before ? "You answered this; another answer takes its place." : "";
  for (const button of $("choices").children) button.setAttribute("aria-pressed", String(before && Number(button.dataset.choice) === item.choice));
  busy(false);
  only("item", focus ? "where" : null);
}

// Where the participant is, as a place in the browser's history.
function go(position, { push = true, focus = true } = {}) {
  if (push && location.hash !== "#" + (position + 1)) history.pushState(null, "", "#" + (position + 1));
  if (position >= state.total) { $("bar").value = state.answered; only("done", focus ? "done-head" : null); return; }
  const next = state.item && state.item.position === position ? state.item : null;
  if (next && next.place === 0 && next.section > 0 && !seenParts.has(next.section)) {
    $("pause-head").textContent = `Part ${next.section} of ${state.sections} is done`;
    only("pause", focus ? "pause-head" : null);
    return;
  }
  if (next) { show(next, focus); return; }
  surely(`/api/p/${token}/items/${position}`, "GET", undefined, "No connection. Trying again…").then(
    (found) => { if (wanted() === position) show(found, focus); },
    () => go(state.next, { focus }),
  );
}

function wanted() {
  const said = Number(location.hash.slice(1)) - 1;
  return Number.isInteger(said) && said >= 0 && said <= state.next ? said : state.next;
}

function choose(choice) {
  if (pending || $("item").hidden || !item) return;
  const turn = Math.max(Date.now(), item.turn + 1);
  const seconds = Math.round(performance.now() - since) / 1000;
  send({ position: item.position, body: { choice, client: made(), turn, seconds } });
}

async function send(answer) {
  pending = answer;
  memory.set({ ...answer, client: answer.body.client });
  busy(true);
  for (const button of $("choices").children) button.setAttribute("aria-pressed", String(Number(button.dataset.choice) === answer.body.choice));
  say("Saving…", false);
  const why = "No connection: your last answer is not saved yet. It is kept on this device; trying again…";
  try {
    const said = await surely(`/api/p/${token}/answers/${answer.position}`, "PUT", answer.body, why);
    if (said.saved !== true) throw new Refusal("The server did not save the answer.");
    Object.assign(state, said);
    say(`Saved: ${said.answered} of ${said.total}.`);
  } catch (e) {
    say("");
    if (e.status !== 409) { pending = null; memory.drop(answer.body.client); problem(e); return; }
    Object.assign(state, await surely(`/api/p/${token}`, "GET", undefined, "No connection. Trying again…"));
  }
  pending = null;
  memory.drop(answer.body.client);
  go(state.next);
}

async function participate() {
  try {
    state = await surely(`/api/p/${token}`, "GET", undefined, "No connection. Trying again…");
  } catch (e) { problem(e); return; }
  document.title = $("title").textContent = state.title;
  $("question").textContent = state.question;
  $("code").textContent = state.code;
  $("address").value = location.origin + "/p/" + token;
  $("link").hidden = false;
  choiceButtons();
  const left = memory.get();
  if (left && left.body) { // the page was closed before the server had answered
    if (state.item) show(state.item);
    send({ position: left.position, body: left.body });
    return;
  }
  const position = wanted();
  if (location.hash !== "#" + (position + 1)) history.replaceState(null, "", "#" + (position + 1));
  go(position, { push: false });
}

function pressed(event) {
  if (event.repeat || event.ctrlKey || event.altKey || event.metaKey || event.target.closest("input")) return;
  if ($("item").hidden || performance.now() - since < EARLY) return;
  const button = document.querySelector(`#choices [data-key="${CSS.escape(event.key)}"]`);
  if (button) { event.preventDefault(); choose(Number(button.dataset.choice)); }
}

if (token) {
  document.addEventListener("keydown", pressed);
  $("on").addEventListener("click", () => go(state.next));
  $("continue").addEventListener("click", () => { seenParts.add(state.item.section); go(state.next); });
  $("copy").addEventListener("click", async () => {
    $("address").select();
    try { await navigator.clipboard.writeText($("address").value); say("Copied."); } catch { /* it is selected */ }
  });
  window.addEventListener("popstate", () => { if (state && !pending) go(wanted(), { push: false }); });
  participate();
} else {
  consent().catch(problem);
}
$("again").addEventListener("click", () => wake && wake());
window.addEventListener("online", () => wake && wake());
