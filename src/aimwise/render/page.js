// Data only ever reaches the page through textContent, and pictures as the PNG files that they are.
(() => {
  const ALL = -2; // all classes at once, as the class switch counts its choices
  const STEP = 12;
  const EXTRA = 6; // features found by the search that are shown beside the top ones
  const MANY = 8; // classes that fit into a card without scrolling
  const MARGIN = "the weight for one class less the mean weight for the others";
  const LONG = 700; // characters of a text that fit into its box without scrolling

  const { make, signed, percent, fill, breakable, plural } = say;

  const start = (section) => {
    const data = JSON.parse(section.querySelector("script.data").textContent);
    const total = data.predicted.length;
    const cards = section.querySelector(".cards");
    const more = section.querySelector(".more");
    const search = section.querySelector("input[type=search]");
    const wrong = section.querySelector(".wrong input");
    const count = section.querySelector(".count");
    const texts = new Array(total);
    const slider = section.querySelector(".slider input");
    const reading = data.kind === "text"; // the features of a row are the words of its text
    const viewing = data.kind === "image"; // or the regions of its picture
    const painters = new WeakMap();
    let matching = [];
    if (reading) for (const row of data.weights) for (const w of row) w.forEach((v, c) => v !== null && (w[c] = v * data.unit));

    const word = (i, j) => data.texts[i].slice(data.spans[i][2 * j], data.spans[i][2 * j + 1]);
    const region = (i, j) => (data.names === null ? data.values[i][j] : data.names[j]);
    const label = reading ? word : (i, j) => data.names[j] + " = " + data.values[i][j];
    const top = () => (slider !== null ? Number(slider.value) : data.top);
    const weights = viewing ? (i) => pictures.weights(data, i) : (i) => data.weights[i];
    const isWrong = (i) => data.truth !== null && data.truth[i] !== data.predicted[i];
    const target = () => Number(section.querySelector(".switch input:checked").value);
    const query = () => search.value.trim().toLowerCase();
    const full = (all) => (all ? data.margin : data.scale); // the weight that is shown at full strength
    const strength = (weight, all) => (weight === null || full(all) === 0 ? 0 : Math.min(1, Math.abs(weight) / full(all)));

    const haystack = (i) => {
      if (texts[i] === undefined) {
        const words = ["row " + i, data.classes[data.predicted[i]]];
        if (data.truth !== null) words.push(data.classes[data.truth[i]]);
        if (reading) words.push(data.texts[i]);
        else if (!viewing) data.weights[i].forEach((w, j) => w !== null && words.push(label(i, j)));
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

    const chance = (c, p, first) => {
      const item = make("li", data.marks[c] + (first ? " first" : ""));
      const name = make("span", "name");
      name.append(breakable("", data.classes[c]));
      const track = make("span", "track");
      track.setAttribute("aria-hidden", "true");
      track.append(fill("share", p === null ? 0 : p));
      item.append(name, track, make("span", "percent", percent(p)));
      return item;
    };

    const byChance = (probs) => [...data.classes.keys()].sort((a, b) => probs[b] - probs[a] || a - b);

    const chances = (probs, order, label) => {
      const list = make("ul", "probs");
      list.setAttribute("role", "list");
      list.setAttribute("aria-label", label);
      const best = byChance(probs)[0];
      list.append(...order.map((c) => chance(c, probs[c], c === best)));
      return list;
    };

    const probabilities = (i) => {
      const many = data.classes.length > MANY;
      const list = chances(data.probs[i], many ? byChance(data.probs[i]) : [...data.classes.keys()], "Probability of every class");
      if (many) {
        list.classList.add("long");
        list.tabIndex = 0;
      }
      return list;
    };

    // What the black box said of the top features alone and of all others: the probable classes, and the predicted one.
    const trial = (i) => {
      const node = make("div", "trial");
      for (const [what, word] of [["kept", "Only"], ["rest", "Without"]]) {
        const part = make("div");
        const name = word + " the top " + data.trial.k;
        const probs = data.trial[what][i];
        const order = [...new Set([data.predicted[i], ...byChance(probs).slice(0, 3)])];
        part.append(make("h5", "", name));
        if (viewing && data[what] !== null) part.append(pictures.changed(data, i, data[what], name));
        part.append(chances(probs, order, name + ": probabilities"));
        node.append(part);
      }
      return node;
    };

    // What the features of a row say in this view, the strongest first: a weight, and the class which it is about. Seen for
    // all classes, a feature speaks for the class of its largest weight, by as much as that exceeds the mean of the others.
    const ranked = (i, picked, weights) => {
      const size = ({ weight }) => (weight === null ? (viewing ? -Infinity : Infinity) : viewing ? weight : Math.abs(weight));
      const said = [];
      weights.forEach((w, j) => {
        if (w === null) return;
        let about = picked < 0 ? data.predicted[i] : picked;
        let weight = w[about];
        if (picked === ALL) {
          about = w.reduce((best, v, c) => (v > w[best] ? c : best), 0);
          const others = w.reduce((sum, v, c) => (c === about ? sum : sum + v), 0);
          weight = w.includes(null) ? 0 : w[about] - others / Math.max(1, w.length - 1);
          if (!(weight > 0)) return;
        }
        said.push({ j, weight, about });
      });
      return said.sort((a, b) => size(b) - size(a) || a.j - b.j);
    };

    const feature = (i, { j, weight, about }, scale, all, hit) => {
      const item = make("li", "bar" + (hit ? " hit" : "") + (all ? " sum " + data.marks[about] : ""));
      const name = make("span", "name");
      const text = make(hit ? "mark" : "span");
      if (reading) text.append(make("bdi", "", word(i, j)));
      else text.append(breakable("", data.names[j]), make("span", "is", " = "), make("bdi", "value", data.values[i][j]));
      name.append(text);
      if (all) name.append(" ", breakable("of", data.classes[about]));
      const track = make("span", "track");
      track.setAttribute("aria-hidden", "true");
      const share = scale && weight !== null ? Math.abs(weight) / scale : 0;
      track.append(all ? fill("part", share) : fill(weight < 0 ? "minus" : "plus", share / 2));
      item.append(name, track, make("span", "weight", signed(weight, scale)));
      return item;
    };

    // Whether a feature is one that is searched for; words are also found as parts of a longer phrase.
    const finder = (i, asked) => {
      if (asked === "") return () => false;
      if (!reading) return (j) => label(i, j).toLowerCase().includes(asked);
      const text = data.texts[i].toLowerCase();
      const found = [];
      for (let at = text.indexOf(asked); at >= 0; at = text.indexOf(asked, at + asked.length)) found.push(at);
      return (j) => found.some((at) => at < data.spans[i][2 * j + 1] && at + asked.length > data.spans[i][2 * j]);
    };

    const evidence = (i, picked, order, hit) => {
      const all = picked === ALL;
      const largest = ({ j, weight }) => (all ? weight : Math.max(...data.weights[i][j].map(Math.abs)));
      const scale = order.reduce((best, each) => Math.max(best, largest(each)), 0);
      const found = order.slice(top()).filter((each) => hit(each.j)).slice(0, EXTRA);
      const rest = order.slice(top()).filter((each) => !found.includes(each));
      const list = make("ol", "bars");
      list.setAttribute("role", "list");
      list.append(...[...order.slice(0, top()), ...found].map((each) => feature(i, each, scale, all, hit(each.j))));
      const parts = [list];
      if (order.length === 0) {
        const empty = reading ? "This text has no words." : "This row has no features.";
        const some = data.weights[i].some((w) => w !== null);
        parts.push(make("p", "rest", some ? "Nothing speaks for one class more than for the others." : empty));
      }
      if (rest.length) {
        const sum = rest.reduce((s, each) => s + each.weight, 0);
        const others = plural(rest.length, reading ? "other word" : "smaller feature");
        parts.push(make("p", "rest", others + (all ? "" : ", together " + signed(sum, scale))));
      }
      return parts;
    };

    const towards = (chosen) => {
      const title = make("p", "towards", "Evidence for ");
      title.append(make("bdi", "", chosen < 0 ? "all classes" : data.classes[chosen]));
      return title;
    };

    // A text as it was written, with a span for every explained word.
    const passage = (i) => {
      const text = data.texts[i];
      const box = make("div", "text");
      const words = [];
      let at = 0;
      box.dir = "auto";
      data.weights[i].forEach((_, j) => {
        const [begin, end] = data.spans[i].slice(2 * j, 2 * j + 2);
        const node = make("span", "word", text.slice(begin, end));
        box.append(text.slice(at, begin), node);
        words.push(node);
        at = end;
      });
      box.append(data.beyond[i] ? make("span", "tail", text.slice(at)) : text.slice(at));
      if (text.length > LONG) {
        box.tabIndex = 0;
        box.setAttribute("role", "region");
        box.setAttribute("aria-label", "The text of row " + i);
      }
      return [box, words];
    };

    const shade = (words, i, picked, order, hit) => {
      const first = new Set(order.slice(0, top()).map(({ j }) => j));
      const said = new Map(order.map((each) => [each.j, each]));
      const all = picked === ALL;
      words.forEach((node, j) => {
        const { weight, about } = said.get(j) || { weight: 0 };
        const look = all ? (about === undefined ? "" : " for " + data.marks[about]) : weight < 0 ? " against" : " for";
        node.className = "word" + look + (first.has(j) ? " top" : "") + (hit(j) ? " hit" : "");
        node.style.setProperty("--s", strength(weight, all).toFixed(2));
        node.title = (all && about !== undefined ? data.classes[about] + " " : "") + signed(weight, full(all));
      });
    };

    // How to read the view: samples of what is drawn below, each with its meaning, and the scale.
    const legend = (picked) => {
      const all = picked === ALL;
      const list = make("dl", picked < 0 ? "" : data.marks[picked]);
      const entry = (name, ...parts) => {
        const item = make("div");
        const said = make("dd");
        said.append(...parts);
        item.append(make("dt", "", name), said);
        list.append(item);
      };
      const sample = (look, text, share) => {
        const node = reading ? make("span", "word " + look, text) : make("i", (viewing ? "patch " : "sample ") + look);
        node.style.setProperty("--s", share);
        return node;
      };
      const what = reading ? "words" : viewing ? "regions" : "bars";
      const size = all ? "margin" : "weight";
      const many = top() === 1 ? "the one" : "the " + top();
      const most = " with the largest " + size + (top() === 1 ? "" : "s");
      if (picked < 0) {
        const chips = data.classes.map((name, c) => make("bdi", "chip " + data.marks[c], name));
        const whose = all ? "the class that " + what + " speak most for: " : "the predicted class: ";
        entry("Colour", whose, ...chips.flatMap((chip) => [chip, " "]));
      }
      const parts = [];
      if (!all) {
        const name = make("bdi", "", picked < 0 ? "the predicted class" : data.classes[picked]);
        const [good, bad] = reading ? ["for filled", "against"] : viewing ? ["for", "against"] : ["plus", "minus"];
        parts.push(sample(good, "filled", 1), reading ? "" : " filled", " speak for ", name, ", ");
        parts.push(sample(bad, "dashed", 1), reading ? "" : " hatched", " speak against it");
      }
      if (slider !== null && top() > 0) {
        parts.push(all ? "" : ", ", sample(viewing ? "first" : "top", "bold", 0), viewing ? " outlined" : "", " are " + many);
        parts.push(viewing && !all ? (top() === 1 ? " that speaks" : " that speak") + " most for it" : most);
      }
      if (parts.length) entry(what[0].toUpperCase() + what.slice(1), ...parts);
      if (slider !== null && full(all) > 0) {
        const steps = all ? [0, 0.25, 0.5, 0.75, 1] : [-1, -0.5, 0, 0.5, 1];
        const marks = steps.map((s) => {
          const said = signed(s * full(all), full(all));
          const mark = sample(s < 0 ? "against" : "for", said, Math.abs(s));
          if (reading) return mark;
          const pair = make("span", "step");
          pair.append(mark, " " + said);
          return pair;
        });
        entry(all ? "Margin" : "Weight", ...marks.flatMap((mark) => [mark, " "]), "and more" + (all ? "; " + MARGIN : ""));
      } else if (all && slider === null) entry("Margin", MARGIN);
      section.querySelector(".legend").replaceChildren(list);
    };

    // A picture beside what its regions say; it is painted again where it stands.
    const picture = (i, own) => {
      const all = () => target() === ALL;
      const name = ({ j, weight, about }) =>
        region(i, j) + ": " + (all() ? data.classes[about] + " " : "") + signed(weight, full(all()));
      const drawn = pictures.overlay(data, i, name);
      const pair = make("div", "pair");
      pair.append(pictures.input(data, i), drawn.box);
      const view = (chosen) => {
        const said = ranked(i, chosen, own());
        const first = said.slice(0, top());
        const words = "The regions that say most: " + first.slice(0, EXTRA).map(name).join("; ");
        return { said, top: first, strength: (w) => strength(w, all()), name: first.length ? words : "No region stands out" };
      };
      return [pair, (chosen) => drawn.paint(() => view(chosen))];
    };

    const card = (i) => {
      const node = make("article", isWrong(i) ? "card bad" : "card");
      const body = make("div");
      let kept;
      const own = () => (kept = kept || weights(i));
      const [box, parts] = reading ? passage(i) : viewing ? picture(i, own) : [null, []];
      const paint = () => {
        const picked = target();
        const chosen = picked === ALL || picked >= 0 ? picked : data.predicted[i];
        body.className = "evidence" + (chosen < 0 ? " every" : " " + data.marks[chosen]);
        if (viewing) {
          body.replaceChildren(towards(chosen), box);
          return parts(chosen);
        }
        const order = ranked(i, chosen, own());
        const hit = finder(i, query());
        const listed = evidence(i, chosen, order, hit);
        if (!reading) return body.replaceChildren(towards(chosen), ...listed);
        shade(parts, i, chosen, order, hit);
        const note = data.beyond[i] ? [make("p", "rest", data.notes[i] + ".")] : [];
        // The text stays where it is, so that it keeps its place when it is scrolled.
        while (body.lastChild && body.lastChild !== box) body.lastChild.remove();
        if (box.parentNode) box.previousSibling.replaceWith(towards(chosen));
        else body.append(towards(chosen), box);
        return body.append(...note, ...listed);
      };
      node.tabIndex = -1;
      node.append(head(i), probabilities(i), body);
      if (data.trial !== null) node.append(trial(i));
      painters.set(node, paint);
      paint();
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
      for (const figure of section.querySelectorAll("figure[data-target]")) figure.hidden = figure.dataset.target !== picked;
      if (total > 0) legend(target());
      if (keep) {
        for (const node of cards.children) painters.get(node)();
        return;
      }
      const asked = query();
      const only = wrong !== null && wrong.checked;
      matching = [...Array(total).keys()].filter((i) => (!only || isWrong(i)) && (asked === "" || haystack(i).includes(asked)));
      cards.replaceChildren();
      grow(STEP);
      const all = plural(total, "row");
      count.textContent = asked === "" && !only ? all : matching.length.toLocaleString("en") + " of " + all + " found";
    };

    section.querySelector(".switch").addEventListener("change", () => draw(true));
    if (slider !== null) {
      slider.addEventListener("input", () => {
        section.querySelector(".slider output").textContent = slider.value;
        slider.setAttribute("aria-valuetext", plural(top(), reading ? "word" : "region"));
        draw(true);
      });
    }
    search.addEventListener("input", () => draw(false));
    if (wrong !== null) wrong.addEventListener("change", () => draw(false));
    more.addEventListener("click", () => {
      const first = grow(cards.childElementCount + STEP);
      if (first) first.focus({ preventScroll: true });
    });
    if (viewing && pictures.few(data)) cards.classList.add("tight");
    section.querySelector(".switch").hidden = false;
    section.querySelector(".rows").hidden = false;
    section.querySelector(".find").hidden = total === 0;
    draw(false);
  };

  for (const section of document.querySelectorAll("section.set")) start(section);
})();
