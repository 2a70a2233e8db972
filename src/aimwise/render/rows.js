// One row of the page: its card, and what of it can be searched. Data only ever reaches the page through textContent, and
// pictures as the PNG files that they are.
const rows = (() => {
  const ALL = -2; // all classes at once, as the class switch counts its choices
  const EXTRA = 6; // features found by the search that are shown beside the top ones
  const MANY = 8; // classes that fit into a card without scrolling
  const LONG = 700; // characters of a text that fit into its box without scrolling
  const { make, signed, percent, fill, breakable, plural } = say;

  // `view` tells the reader's choice: the class that is picked, how many features stand out, and what is searched for.
  return (data, view, choose) => {
    const reading = data.kind === "text"; // the features of a row are the words of its text
    const viewing = data.kind === "image"; // or the regions of its picture
    const texts = new Array(data.predicted.length);
    const places = new Array(data.predicted.length);

    const spans = (i) => (places[i] = places[i] || codec.spans(data.spans[i]));
    const word = (i, j) => data.texts[i].slice(spans(i)[2 * j], spans(i)[2 * j + 1]);
    const region = (i, j) => (data.names === null ? data.values[i][j] : data.names[j]);
    const label = reading ? word : (i, j) => data.names[j] + " = " + data.values[i][j];
    const top = () => view().top;
    const isWrong = (i) => data.truth !== null && data.truth[i] !== data.predicted[i];
    const full = (all) => (all ? data.margin : data.scale); // the weight that is shown at full strength
    const strength = (weight, all) => (weight === null || full(all) === 0 ? 0 : Math.min(1, Math.abs(weight) / full(all)));

    // A list of weights for every feature; null for a feature that is not there.
    const weights = (i) => {
      const found = codec.weights(data, i);
      if (reading) return found;
      return found.map((w, j) => ((viewing ? w.every((v) => v === null) : data.values[i][j] === null) ? null : w));
    };

    const haystack = (i) => {
      if (texts[i] === undefined) {
        const words = ["row " + i, data.classes[data.predicted[i]]];
        if (data.truth !== null) words.push(data.classes[data.truth[i]]);
        if (reading) words.push(data.texts[i]);
        else if (!viewing) data.values[i].forEach((value, j) => value !== null && words.push(label(i, j)));
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

    // What the black box said of the top features alone and of all others: the probable classes, and the predicted one. Of
    // several trials it is the largest that has no more features than stand out now; the others are a button away.
    const trial = (i) => {
      const node = make("div", "trial");
      const fitting = data.trials.filter(({ k }) => k <= top());
      const shown = fitting.length ? fitting.length - 1 : 0;
      const { k } = data.trials[shown];
      if (data.trials.length > 1) node.append(ladder(i, shown));
      for (const [what, word] of [["kept", "Only"], ["rest", "Without"]]) {
        const part = make("div");
        const name = word + " the top " + k;
        const probs = data.trials[shown][what][i];
        const order = [...new Set([data.predicted[i], ...byChance(probs).slice(0, 3)])];
        part.append(make("h5", "", name));
        if (viewing && data[what][shown] !== null) part.append(pictures.changed(data, i, data[what][shown], name));
        part.append(chances(probs, order, name + ": probabilities"));
        node.append(part);
      }
      return node;
    };

    // The probability of the predicted class by the number of top features that are kept, each a button that chooses it.
    const ladder = (i, shown) => {
      const node = make("div", "ladder");
      const name = make("p", "of-what", "Probability of ");
      name.append(make("bdi", "", data.classes[data.predicted[i]]), " with only the top");
      const list = make("div", "rungs");
      data.trials.forEach(({ k, kept }, n) => {
        const step = make("button", "rung");
        const share = kept[i][data.predicted[i]];
        step.type = "button";
        step.setAttribute("aria-pressed", String(n === shown));
        const track = make("span", "track");
        track.append(fill("share", share === null ? 0 : share));
        step.append(make("b", "", String(k)), track, make("span", "percent", percent(share)));
        step.addEventListener("click", () => choose(k));
        list.append(step);
      });
      node.append(name, list);
      node.classList.add(...data.marks[data.predicted[i]].split(" "));
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
      said.sort((a, b) => size(b) - size(a) || a.j - b.j);
      return viewing && data.base !== null && picked !== ALL ? enough(said, weights) : said;
    };

    // The same with those first that together make most of their class among all, one after the other, as trials keep them.
    const enough = (said, weights) => {
      const scores = [...data.base];
      const rest = [...said];
      const first = [];
      while (first.length < top() && rest.length) {
        const share = ({ j, about }) => {
          const after = scores.map((s, c) => s + weights[j][c]);
          const most = Math.max(...after);
          return after[about] - most - Math.log(after.reduce((sum, s) => sum + Math.exp(s - most), 0));
        };
        const shares = rest.map(share);
        const [best] = rest.splice(shares.reduce((b, s, n) => (s > shares[b] ? n : b), 0), 1);
        weights[best.j].forEach((w, c) => (scores[c] += w));
        first.push(best);
      }
      return [...first, ...rest];
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
      return (j) => found.some((at) => at < spans(i)[2 * j + 1] && at + asked.length > spans(i)[2 * j]);
    };

    const evidence = (i, picked, order, hit, own) => {
      const all = picked === ALL;
      const largest = ({ j, weight }) => (all ? weight : Math.max(...own[j].map(Math.abs)));
      const scale = order.reduce((best, each) => Math.max(best, largest(each)), 0);
      const found = order.slice(top()).filter((each) => hit(each.j)).slice(0, EXTRA);
      const rest = order.slice(top()).filter((each) => !found.includes(each));
      const list = make("ol", "bars");
      list.setAttribute("role", "list");
      list.append(...[...order.slice(0, top()), ...found].map((each) => feature(i, each, scale, all, hit(each.j))));
      const parts = [list];
      if (order.length === 0) {
        const empty = reading ? "This text has no words." : "This row has no features.";
        const some = own.some((w) => w !== null);
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
      for (let j = 0; j < spans(i).length / 2; j++) {
        const [begin, end] = [spans(i)[2 * j], spans(i)[2 * j + 1]];
        const node = make("span", "word", text.slice(begin, end));
        box.append(text.slice(at, begin), node);
        words.push(node);
        at = end;
      }
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

    // A picture beside what its regions say; it is painted again where it stands.
    const picture = (i) => {
      const all = () => view().picked === ALL;
      const name = ({ j, weight, about }) =>
        region(i, j) + ": " + (all() ? data.classes[about] + " " : "") + signed(weight, full(all()));
      const drawn = pictures.overlay(data, i, name);
      const pair = make("div", "pair");
      pair.append(pictures.input(data, i), drawn.box);
      const seen = (chosen) => {
        const said = ranked(i, chosen, weights(i));
        const first = said.slice(0, top());
        const words = "The regions that say most: " + first.slice(0, EXTRA).map(name).join("; ");
        return { said, top: first, strength: (w) => strength(w, all()), name: first.length ? words : "No region stands out" };
      };
      return [pair, (chosen) => drawn.paint(() => seen(chosen))];
    };

    // What a card shows, and a function that draws it again for another choice.
    const card = (i) => {
      const body = make("div");
      const kept = viewing ? null : weights(i); // those of pictures are many, and read again when they are needed
      const [box, parts] = reading ? passage(i) : viewing ? picture(i) : [null, []];
      const tried = make("div");
      const paint = () => {
        const { picked, query } = view();
        const chosen = picked === ALL || picked >= 0 ? picked : data.predicted[i];
        body.className = "evidence" + (chosen < 0 ? " every" : " " + data.marks[chosen]);
        if (data.trials.length) {
          const held = tried.contains(document.activeElement) ? document.activeElement.textContent : null;
          tried.replaceChildren(trial(i));
          // The button that was pressed keeps the focus.
          if (held !== null) [...tried.querySelectorAll("button")].find((each) => each.textContent === held)?.focus();
        }
        if (viewing) {
          body.replaceChildren(towards(chosen), box);
          return parts(chosen);
        }
        const order = ranked(i, chosen, kept);
        const hit = finder(i, query);
        const listed = evidence(i, chosen, order, hit, kept);
        if (!reading) return body.replaceChildren(towards(chosen), ...listed);
        shade(parts, i, chosen, order, hit);
        const note = data.beyond[i] ? [make("p", "rest", data.notes[i] + ".")] : [];
        // The text stays where it is, so that it keeps its place when it is scrolled.
        while (body.lastChild && body.lastChild !== box) body.lastChild.remove();
        if (box.parentNode) box.previousSibling.replaceWith(towards(chosen));
        else body.append(towards(chosen), box);
        return body.append(...note, ...listed);
      };
      paint();
      return { parts: [head(i), probabilities(i), body, ...(data.trials.length ? [tried] : [])], paint };
    };

    return { card, haystack, isWrong };
  };
})();
