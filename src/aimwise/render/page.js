"use strict";
// Data only ever reaches the page through textContent.
(() => {
  const STEP = 12;
  const EXTRA = 6; // features found by the search that are shown beside the top ones
  const MANY = 8; // classes that fit into a card without scrolling

  const make = (tag, name, text) => {
    const node = document.createElement(tag);
    if (name) node.className = name;
    if (text !== undefined) node.textContent = text;
    return node;
  };

  const signed = (number, scale) => {
    if (number === null) return "not a number";
    const plain = scale === 0 || (scale >= 1e-4 && scale < 1e7);
    const decimals = scale === 0 ? 0 : Math.max(0, 2 - Math.floor(Math.log10(scale)));
    const text = plain ? Math.abs(number).toFixed(decimals) : Math.abs(number).toExponential(2);
    return (Number(text) === 0 ? "" : number < 0 ? "\u2212" : "+") + text;
  };

  const percent = (p) => {
    if (p === null) return "not a number";
    if (p > 0 && p < 0.0005) return "<0.1%";
    if (p < 1 && p >= 0.9995) return ">99.9%";
    return (100 * p).toFixed(1) + "%";
  };

  const fill = (name, share) => {
    const node = make("i", name);
    node.style.setProperty("--w", (100 * share).toFixed(2) + "%");
    return node;
  };

  // Names such as od280/od315_of_wines may be broken after an underscore or a slash.
  const breakable = (name, text) => {
    const node = make("bdi", name);
    text.split(/(?<=[_/])/).forEach((piece, i) => node.append(...(i ? [make("wbr"), piece] : [piece])));
    return node;
  };

  const plural = (n, word) => n.toLocaleString("en") + " " + word + (n === 1 ? "" : "s");

  const start = (section) => {
    const data = JSON.parse(section.querySelector("script.data").textContent);
    const total = data.weights.length;
    const cards = section.querySelector(".cards");
    const more = section.querySelector(".more");
    const search = section.querySelector("input[type=search]");
    const wrong = section.querySelector(".wrong input");
    const count = section.querySelector(".count");
    const texts = new Array(total);
    let matching = [];

    const label = (i, j) => data.names[j] + " = " + data.values[i][j];
    const isWrong = (i) => data.truth !== null && data.truth[i] !== data.predicted[i];
    const target = () => Number(section.querySelector(".switch input:checked").value);
    const query = () => search.value.trim().toLowerCase();

    const haystack = (i) => {
      if (texts[i] === undefined) {
        const words = ["row " + i, data.classes[data.predicted[i]]];
        if (data.truth !== null) words.push(data.classes[data.truth[i]]);
        data.weights[i].forEach((w, j) => w !== null && words.push(label(i, j)));
        texts[i] = words.join("\n").toLowerCase();
      }
      return texts[i];
    };

    const head = (i) => {
      const node = make("header");
      const predicted = data.predicted[i];
      const title = make("h4");
      const name = make("span", "predicted", data.classes[predicted]);
      name.dir = "auto";
      title.append(make("span", "row", "Row " + i), " ", name);
      node.append(title);
      const side = make("p", "marks");
      if (data.truth !== null) {
        const truth = make("span", isWrong(i) ? "badge bad" : "badge", isWrong(i) ? "\u2717 wrong, truth: " : "\u2713 truth: ");
        truth.append(make("bdi", "", data.classes[data.truth[i]]));
        side.append(truth);
      }
      if (data.agreement !== null) {
        const a = data.agreement[i];
        const mark = make("span", "agreement", "agreement " + (a === null ? "not a number" : a.toFixed(2)));
        mark.title = "How far the weights alone give the probabilities of the black box; 1 is perfect";
        side.append(mark);
      }
      if (side.childNodes.length) node.append(side);
      return node;
    };

    const probabilities = (i) => {
      const list = make("ul", "probs");
      list.setAttribute("role", "list");
      list.setAttribute("aria-label", "Probability of every class");
      const order = [...data.classes.keys()];
      if (order.length > MANY) {
        order.sort((a, b) => data.probs[i][b] - data.probs[i][a] || a - b);
        list.classList.add("long");
        list.tabIndex = 0;
      }
      for (const c of order) {
        const p = data.probs[i][c];
        const item = make("li", c === data.predicted[i] ? "first" : "");
        const name = make("span", "name");
        name.append(breakable("", data.classes[c]));
        const track = make("span", "track");
        track.setAttribute("aria-hidden", "true");
        track.append(fill("share", p === null ? 0 : p));
        item.append(name, track, make("span", "percent", percent(p)));
        list.append(item);
      }
      return list;
    };

    const feature = (i, j, weight, scale, hit) => {
      const item = make("li", hit ? "bar hit" : "bar");
      const name = make("span", "name");
      const text = make(hit ? "mark" : "span");
      text.append(breakable("", data.names[j]), make("span", "is", " = "), make("bdi", "value", data.values[i][j]));
      name.append(text);
      const track = make("span", "track");
      track.setAttribute("aria-hidden", "true");
      track.append(fill(weight < 0 ? "minus" : "plus", scale && weight !== null ? Math.abs(weight) / scale / 2 : 0));
      item.append(name, track, make("span", "weight", signed(weight, scale)));
      return item;
    };

    const evidence = (i, chosen, asked) => {
      const size = (w) => (w === null ? Infinity : Math.abs(w));
      const rows = data.weights[i];
      const order = [...rows.keys()].filter((j) => rows[j] !== null);
      order.sort((a, b) => size(rows[b][chosen]) - size(rows[a][chosen]) || a - b);
      const scale = order.reduce((best, j) => Math.max(best, ...rows[j].map(Math.abs)), 0);
      const hit = (j) => asked !== "" && label(i, j).toLowerCase().includes(asked);
      const shown = order.slice(0, data.top);
      const found = order.slice(data.top).filter(hit).slice(0, EXTRA);
      const rest = order.slice(data.top).filter((j) => !found.includes(j));
      const list = make("ol", "bars");
      list.setAttribute("role", "list");
      list.append(...[...shown, ...found].map((j) => feature(i, j, rows[j][chosen], scale, hit(j))));
      const title = make("p", "towards", "Evidence for ");
      title.append(make("bdi", "", data.classes[chosen]));
      const parts = [title, list];
      if (order.length === 0) parts.push(make("p", "rest", "This row has no features."));
      if (rest.length) {
        const sum = rest.reduce((s, j) => s + rows[j][chosen], 0);
        parts.push(make("p", "rest", plural(rest.length, "smaller feature") + ", together " + signed(sum, scale)));
      }
      return parts;
    };

    const card = (i) => {
      const node = make("article", isWrong(i) ? "card bad" : "card");
      const picked = target();
      const chosen = picked < 0 ? data.predicted[i] : picked;
      node.tabIndex = -1;
      node.append(head(i), probabilities(i), ...evidence(i, chosen, query()));
      return node;
    };

    const grow = (upTo) => {
      const old = cards.childElementCount;
      cards.append(...matching.slice(old, upTo).map(card));
      const left = matching.length - cards.childElementCount;
      more.hidden = left <= 0;
      more.textContent = "Show " + Math.min(STEP, left) + " more (" + plural(left, "row") + " left)";
      return cards.children[old];
    };

    const draw = (keep) => {
      const picked = String(target());
      for (const figure of section.querySelectorAll("figure")) figure.hidden = figure.dataset.target !== picked;
      const asked = query();
      const only = wrong !== null && wrong.checked;
      const shown = keep ? Math.max(cards.childElementCount, STEP) : STEP;
      matching = [...Array(total).keys()].filter((i) => (!only || isWrong(i)) && (asked === "" || haystack(i).includes(asked)));
      cards.replaceChildren();
      grow(shown);
      const all = plural(total, "row");
      count.textContent = asked === "" && !only ? all : matching.length.toLocaleString("en") + " of " + all + " found";
    };

    section.querySelector(".switch").addEventListener("change", () => draw(true));
    search.addEventListener("input", () => draw(false));
    if (wrong !== null) wrong.addEventListener("change", () => draw(false));
    more.addEventListener("click", () => {
      const first = grow(cards.childElementCount + STEP);
      if (first) first.focus({ preventScroll: true });
    });
    section.querySelector(".switch").hidden = false;
    section.querySelector(".rows").hidden = false;
    section.querySelector(".find").hidden = total === 0;
    draw(false);
  };

  for (const section of document.querySelectorAll("section.set")) start(section);
})();
