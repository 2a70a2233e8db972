// The page to try explainers on: an input goes to the service, its answer is drawn as in a report, and every number of top
// features is asked about. What is shown can be reached again by a link that holds it behind the # sign.
(() => {
  const { make, plural, percent } = say;
  const [ALL, PREDICTED] = [-2, -1]; // as the class switch counts its choices
  const PAUSE = 120; // milliseconds for which the slider must rest before the model is asked
  const SLOW = 400; // and after which the page says that it waits
  const LISTED = 12; // features that are named
  const UNIT = { text: "word", ids: "token", table: "feature", image: "region" };
  const STAND_OUT = { text: [5, 30], ids: [5, 30], table: [5, 30], image: [5, 100] };
  const TOKEN = "aimwise-token";

  const at = (id) => document.getElementById(id);
  const [login, form, results, slider, status] = ["login", "ask", "results", "top", "status"].map(at);
  const [first, beside] = [at("explainer"), at("beside")];
  const [options, cards] = [results.querySelector(".options"), results.querySelector(".cards")];
  let explainers = [];
  let input = null; // the form of the input, as `forms` made it
  let shown = null; // what is on the page: the input's value, its kind, and a panel for each explainer
  let asking = new AbortController();
  let pause = 0;

  const about = (name) => explainers.find((one) => one.name === name);
  const chosen = () => [about(first.value), about(beside.value)].filter(Boolean);
  const same = (a, b) => a !== b && ["kind", "classes", "input"].every((key) => JSON.stringify(a[key]) === JSON.stringify(b[key]));

  // The service.
  const call = async (path, body, signal) => {
    const token = sessionStorage.getItem(TOKEN);
    const headers = { ...(token ? { authorization: "Bearer " + token } : {}), ...(body ? { "content-type": "application/json" } : {}) };
    let answer;
    try {
      answer = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Error("The service cannot be reached. Is it still running?");
    }
    const said = await answer.json().catch(() => ({ error: "The service answered something that is not JSON." }));
    if (answer.status === 401) {
      sessionStorage.removeItem(TOKEN);
      ask_token(token ? "That token was wrong." : "");
    }
    if (!answer.ok) throw new Error(said.error);
    return said;
  };
  const ask_token = (why) => {
    login.hidden = false;
    form.hidden = true;
    results.hidden = true;
    at("token").setAttribute("aria-invalid", String(why !== ""));
    login.querySelector("label").textContent = (why && why + " ") + "This service asks for a token";
    at("token").focus();
  };
  const complain = (error) => {
    if (error && error.name === "AbortError") return;
    const box = at("error");
    document.querySelectorAll("#input [aria-invalid]").forEach((node) => node.removeAttribute("aria-invalid"));
    box.hidden = !error;
    box.textContent = error ? error.message : "";
    if (error instanceof forms.Wrong && error.node) {
      error.node.setAttribute("aria-invalid", "true");
      error.node.setAttribute("aria-describedby", "error");
      error.node.focus();
    }
  };

  // The form.
  const choose = () => {
    const one = about(first.value);
    const others = explainers.filter((other) => same(one, other));
    const kept = beside.value;
    beside.replaceChildren(...[["", "(nothing)"], ...others.map(({ name }) => [name, name])].map(([value, text]) => {
      const node = make("option", "", text);
      node.value = value;
      return node;
    }));
    beside.value = others.some(({ name }) => name === kept) ? kept : "";
    beside.parentElement.hidden = !others.length;
    const classes = one.classes.length.toLocaleString("en") + (one.classes.length === 1 ? " class" : " classes");
    at("about").textContent = one.method + " explains " + one.model + ", " + classes + "; fill of what is taken away: " + one.fill;
    const key = JSON.stringify([one.kind, one.input]);
    if (at("input").dataset.key === key) return;
    at("input").dataset.key = key;
    input = forms.make(one, (error) => (error ? complain(error) : explain()));
    at("input").replaceChildren(input.node);
    results.hidden = true;
    complain(null);
  };

  // The link: what is shown, as text of signs that an address may hold.
  const packed = (value) => {
    const bytes = new TextEncoder().encode(JSON.stringify(value));
    let signs = "";
    for (let i = 0; i < bytes.length; i += 32768) signs += String.fromCharCode(...bytes.subarray(i, i + 32768));
    return btoa(signs).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  };
  const unpacked = (text) =>
    JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (sign) => sign.charCodeAt(0))));
  const remember = () => {
    const names = shown.panels.map(({ name }) => name);
    const view = { e: names[0], b: names[1], i: shown.value, k: Number(slider.value), c: picked() };
    history.replaceState(null, "", "#v=" + packed(view));
  };
  const recall = async () => {
    if (!location.hash.startsWith("#v=")) return;
    try {
      const { e, b, i, k, c } = unpacked(location.hash.slice(3));
      if (!about(e)) throw new Error("The link is about an explainer that this service does not have.");
      first.value = e;
      choose();
      beside.value = b && about(b) && same(about(e), about(b)) ? b : "";
      await input.fill(i);
      await explain({ k, c, still: true });
    } catch (error) {
      complain(error instanceof SyntaxError || error.name === "InvalidCharacterError" ? new Error("The link is damaged.") : error);
    }
  };

  // The answer.
  const picked = () => Number(options.querySelector("input:checked")?.value ?? PREDICTED);
  const view = () => ({ picked: picked(), top: Number(slider.value), query: "" });
  const target = ({ data }) => (picked() >= 0 ? picked() : data.predicted[0]);
  const name_of = ({ data }, j) => {
    if (data.kind === "text") {
      const places = codec.spans(data.spans[0]);
      return data.texts[0].slice(places[2 * j], places[2 * j + 1]);
    }
    return data.names === null ? data.values[0][j] : data.names[j];
  };
  // The features that speak most for a class, the strongest first.
  const leading = (panel, k) => {
    const c = target(panel);
    const found = panel.weights.map((w, j) => [j, w === null || w[c] === null ? -Infinity : w[c]]).filter(([, w]) => w > -Infinity);
    return found.sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, k).map(([j]) => j);
  };

  const switches = (one) => {
    const names = ["all classes", "predicted class", ...(one.every_class ? one.classes : [])];
    options.replaceChildren(
      ...names.map((name, n) => {
        const label = make("label");
        const radio = make("input");
        [radio.type, radio.name, radio.value, radio.checked] = ["radio", "class", String(n + ALL), n + ALL === PREDICTED];
        const said = make("span");
        said.dir = "auto";
        if (n + ALL >= 0) {
          label.className = shown.panels[0].data.marks[n + ALL];
          said.append(make("i", "dot"));
        }
        said.append(make("span", "name", name));
        label.append(radio, said);
        return label;
      }),
    );
  };

  const head = ({ name, data }, method) => {
    const node = make("header");
    const title = make("h2");
    const says = make("bdi", "predicted", data.classes[data.predicted[0]]);
    title.append("The model says ", says);
    const marks = make("p", "marks");
    const by = make("span", "", "explained by ");
    by.append(make("bdi", "", name), name === method ? "" : " (" + method + ")");
    marks.append(by);
    node.append(title, marks);
    return node;
  };

  const draw = () => {
    for (const panel of shown.panels) panel.paint();
    const { data } = shown.panels[0];
    const full = (picked() === ALL ? data.margin : data.scale) || 0;
    results.querySelector(".legend").replaceChildren(legend(data, { picked: picked(), top: Number(slider.value), full }));
  };

  // What the model says with the top features alone and without them.
  const question = async (signal) => {
    const k = Number(slider.value);
    await Promise.all(
      shown.panels.map(async (panel) => {
        const keep = leading(panel, k);
        const body = { explainer: panel.name, [panel.field]: [shown.value], keep: [keep], view: panel.data.kind === "image" };
        const { results: [said] } = await call("/v1/ask", body, signal);
        if (said.error) throw new Error(said.error);
        panel.data.trials = [{ k, kept: [said.kept], rest: [said.rest] }];
        if (said.view) [panel.data.kept, panel.data.rest] = [[said.view.kept], [said.view.rest]];
        const c = target(panel);
        const best = (probs) => probs.reduce((most, p, n) => (p > probs[most] ? n : most), 0);
        const told = (probs) => panel.data.classes[best(probs)] + " " + percent(probs[best(probs)]);
        const names = keep.slice(0, LISTED).map((j) => name_of(panel, j));
        const which = make("b", "", names.join(panel.data.kind === "text" ? " \u00b7 " : ", ") + (keep.length > LISTED ? " \u2026" : ""));
        which.dir = "auto";
        panel.asked.replaceChildren("The " + plural(keep.length, UNIT[shown.kind]) + " that speak" + (keep.length === 1 ? "s" : "") + " most for ", make("bdi", "", panel.data.classes[c]), keep.length ? ": " : "", which);
        panel.said = "With only the top " + k + " the model says " + told(said.kept) + ", without them " + told(said.rest) + ".";
      }),
    );
  };
  const again = async () => {
    clearTimeout(pause);
    asking.abort();
    asking = new AbortController();
    const { signal } = asking;
    results.querySelector(".slider output").textContent = slider.value;
    slider.setAttribute("aria-valuetext", plural(Number(slider.value), UNIT[shown.kind]));
    cards.classList.add("busy");
    draw();
    pause = setTimeout(async () => {
      try {
        await question(signal);
        cards.classList.remove("busy");
        draw();
        remember();
        complain(null);
        status.textContent = shown.panels.map((panel) => (shown.panels.length > 1 ? panel.name + ": " : "") + panel.said).join(" ");
      } catch (error) {
        complain(error);
      }
    }, PAUSE);
  };

  const panel_of = (one, answer) => {
    const data = answer.view;
    const panel = { name: one.name, field: one.field, data, asked: make("p", "asked"), said: "", weights: codec.weights(data, 0) };
    if (data.kind !== "text") panel.weights = panel.weights.map((w) => (w.every((v) => v === null) ? null : w));
    return panel;
  };
  const explain = async ({ k, c, still } = {}) => {
    const button = form.querySelector("button[type=submit]");
    if (button.getAttribute("aria-disabled") === "true") return;
    clearTimeout(pause);
    asking.abort();
    asking = new AbortController();
    complain(null);
    const waiting = setTimeout(() => (status.textContent = "Asking the model\u2026"), SLOW);
    button.setAttribute("aria-disabled", "true");
    try {
      const value = input.value();
      const picks = chosen();
      const before = shown && shown.kind === picks[0].kind && !still ? { k: slider.value, c: picked() } : { k, c };
      const answers = await Promise.all(
        picks.map(async (one) => {
          const { results: [answer] } = await call("/v1/explain", { explainer: one.name, [one.field]: [value], top: 0, view: true });
          return panel_of(one, answer);
        }),
      );
      shown = { value, kind: picks[0].kind, panels: answers };
      results.dataset.kind = answers[0].data.kind;
      const [usual, limit] = STAND_OUT[shown.kind];
      slider.max = String(Math.max(1, Math.min(limit, ...answers.map(({ weights }) => weights.filter((w) => w !== null).length))));
      slider.value = String(Math.min(Number(before.k ?? usual), Number(slider.max)));
      at("results").querySelector(".slider label").textContent = "Top " + UNIT[shown.kind] + "s";
      switches(picks[0]);
      const radio = options.querySelector('input[value="' + Number(before.c ?? PREDICTED) + '"]');
      if (radio) radio.checked = true;
      await question(asking.signal);
      cards.replaceChildren(
        ...answers.map((panel, n) => {
          const node = make("article", "card");
          const made = rows(panel.data, view, () => {}).card(0);
          panel.paint = made.paint;
          node.setAttribute("aria-label", "Explained by " + panel.name);
          node.append(head(panel, picks[n].method), ...made.parts.slice(1), panel.asked);
          return node;
        }),
      );
      cards.classList.remove("busy");
      results.hidden = false;
      at("copied").textContent = "";
      results.querySelector(".slider output").textContent = slider.value;
      slider.setAttribute("aria-valuetext", plural(Number(slider.value), UNIT[shown.kind]));
      draw();
      remember();
      const says = answers[0].data;
      const chance = says.probs[0][says.predicted[0]];
      status.textContent = "The model says " + says.classes[says.predicted[0]] + ", " + percent(chance) + ". " + answers[0].said;
      if (!still) results.focus({ preventScroll: false });
    } catch (error) {
      status.textContent = "";
      complain(error);
    } finally {
      clearTimeout(waiting);
      button.removeAttribute("aria-disabled");
    }
  };

  const start = async () => {
    ({ explainers } = await call("/v1/explainers"));
    login.hidden = true;
    form.hidden = false;
    first.replaceChildren(...explainers.map(({ name }) => {
      const node = make("option", "", name);
      node.value = name;
      return node;
    }));
    choose();
    await recall();
  };

  login.addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem(TOKEN, at("token").value);
    start().catch(() => {});
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    explain();
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  first.addEventListener("change", () => {
    choose();
    if (shown && !results.hidden) explain({ still: true });
  });
  beside.addEventListener("change", () => shown && !results.hidden && explain({ still: true, k: slider.value, c: picked() }));
  options.addEventListener("change", again);
  slider.addEventListener("input", again);
  window.addEventListener("hashchange", recall);
  at("copy").addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(location.href);
      at("copied").textContent = "Copied, " + location.href.length.toLocaleString("en") + " characters.";
    } catch {
      at("copied").textContent = "Copy the address of this page: it is the link.";
    }
  });
  start().catch((error) => {
    if (login.hidden) {
      form.hidden = false;
      complain(error);
    }
  });
})();
