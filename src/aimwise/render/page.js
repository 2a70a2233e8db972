// The choices of the reader: whose evidence, how many features, which rows and in which order. Cards are made when they come
// near the window, and let go when they are far away.
(() => {
  const FIRST = 12; // cards that are made at once and kept
  const NEAR = 900; // pixels outside of the window within which cards are made
  const FAR = 5000; // and beyond which they are let go
  const SLICE = 5; // milliseconds of a frame that may go into cards that are not in sight yet

  const { make, plural } = say;

  const start = (section) => {
    const data = JSON.parse(section.querySelector("script.data").textContent);
    const total = data.predicted.length;
    const cards = section.querySelector(".cards");
    const search = section.querySelector("input[type=search]");
    const sort = section.querySelector(".find select");
    const wrong = section.querySelector(".wrong input");
    const count = section.querySelector(".count");
    const slider = section.querySelector(".slider input");
    const unit = { text: "word", image: "region", table: "feature" }[data.kind];

    const picked = () => Number(section.querySelector(".switch input:checked").value);
    const view = () => ({ picked: picked(), top: Number(slider.value), query: search.value.trim().toLowerCase() });
    const full = () => (picked() === -2 ? data.margin : data.scale) || 0;
    const choose = (k) => {
      slider.value = k;
      slider.dispatchEvent(new Event("input", { bubbles: true }));
    };
    const { card, haystack, isWrong } = rows(data, view, choose);

    // The cards that are made: how each is drawn again, and whether that is due when it comes near.
    const made = new Map();
    const late = new Set();
    const near = new Set();
    let pumping = false;

    const build = (node) => {
      if (made.has(node)) {
        if (late.delete(node)) made.get(node)();
        return;
      }
      const { parts, paint } = card(Number(node.dataset.row));
      made.set(node, paint);
      node.replaceChildren(...parts);
      node.style.minHeight = "";
    };
    const drop = (node) => {
      if (!made.has(node) || Number(node.dataset.place) < FIRST || node.contains(document.activeElement)) return;
      node.style.minHeight = node.getBoundingClientRect().height + "px";
      made.delete(node);
      late.delete(node);
      node.replaceChildren();
    };
    // What is in sight is made at once, what is near a few at a time, so that scrolling stays smooth.
    const pump = () => {
      const end = performance.now() + SLICE;
      for (const node of near) {
        if (performance.now() > end) return requestAnimationFrame(pump);
        build(node);
      }
      return (pumping = false);
    };
    const arriving = new IntersectionObserver(
      (entries) => {
        for (const { target, isIntersecting, boundingClientRect: place } of entries) {
          near[isIntersecting ? "add" : "delete"](target);
          if (isIntersecting && place.top < innerHeight && place.bottom > 0) build(target);
        }
        if (!pumping) pumping = requestAnimationFrame(pump) > 0;
      },
      { rootMargin: NEAR + "px" },
    );
    const leaving = new IntersectionObserver((entries) => entries.forEach((e) => e.isIntersecting || drop(e.target)), {
      rootMargin: FAR + "px",
    });

    const chance = (i) => data.probs[i][picked() >= 0 ? picked() : data.predicted[i]];
    const rank = {
      row: () => 0,
      sure: (i) => -chance(i),
      unsure: (i) => chance(i),
      agreement: (i) => (data.agreement[i] === null ? -1 : data.agreement[i]),
      wrong: (i) => (isWrong(i) ? -1 - data.probs[i][data.predicted[i]] : 0), // the surest mistakes first
    };

    const show = () => {
      const { query } = view();
      const only = wrong !== null && wrong.checked;
      const found = [...Array(total).keys()].filter((i) => (!only || isWrong(i)) && (query === "" || haystack(i).includes(query)));
      found.sort((a, b) => rank[sort.value](a) - rank[sort.value](b) || a - b);
      arriving.disconnect();
      leaving.disconnect();
      for (const each of [made, late, near]) each.clear();
      const nodes = found.map((i, place) => {
        const node = make("article", isWrong(i) ? "card bad" : "card");
        [node.dataset.row, node.dataset.place, node.tabIndex] = [i, place, -1];
        return node;
      });
      cards.replaceChildren(...nodes);
      nodes.slice(0, FIRST).forEach(build);
      const heights = nodes.slice(0, FIRST).map((node) => node.getBoundingClientRect().height).sort((a, b) => a - b);
      if (heights.length) cards.style.setProperty("--tall", Math.round(heights[heights.length >> 1]) + "px");
      for (const node of nodes) {
        arriving.observe(node);
        leaving.observe(node);
      }
      const all = plural(total, "row");
      count.textContent = query === "" && !only ? all : found.length.toLocaleString("en") + " of " + all + " found";
    };

    const draw = () => {
      const { top } = view();
      for (const figure of section.querySelectorAll("figure[data-target]")) figure.hidden = figure.dataset.target !== String(picked());
      if (total > 0) section.querySelector(".legend").replaceChildren(legend(data, { picked: picked(), top, full: full() }));
    };
    const again = () => {
      draw();
      for (const [node, paint] of made) {
        if (near.has(node) || Number(node.dataset.place) < FIRST) paint();
        else late.add(node);
      }
    };

    section.querySelector(".options").addEventListener("change", () => {
      again();
      if (sort.value.endsWith("sure")) show(); // whose probability it is has changed
    });
    slider.addEventListener("input", () => {
      section.querySelector(".slider output").textContent = slider.value;
      slider.setAttribute("aria-valuetext", plural(view().top, unit));
      again();
    });
    for (const [control, event] of [[search, "input"], [sort, "change"], [wrong, "change"]]) control?.addEventListener(event, show);
    window.addEventListener("beforeprint", () => {
      [...cards.children].forEach(build);
      pictures.finish();
    });
    if (data.kind === "image" && pictures.few(data)) cards.classList.add("tight");
    section.querySelector(".switch").hidden = false;
    section.querySelector(".rows").hidden = false;
    section.querySelector(".find").hidden = total === 0;
    draw();
    show();
  };

  for (const section of document.querySelectorAll("section.set")) start(section);
})();
