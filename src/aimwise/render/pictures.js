// The pictures of a page: regions over them filled or hatched by what they say, the top ones outlined.
const pictures = (() => {
  const DOTS = 280; // of the longer side of a drawing, so that it stays sharp on fine screens
  const PERIOD = 9; // dots from one line of the hatching to the next
  const LINE = 3; // dots of an outline
  const FEW = 64; // pictures with so few pixels on a side are shown with sharp ones

  const few = (data) => Math.max(...data.size) <= FEW;
  const channels = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));

  const canvas = (width, height) => {
    const node = document.createElement("canvas");
    node.width = width;
    node.height = height;
    return node;
  };

  // The feature of every pixel, line by line.
  const regions = (data, i) => {
    const runs = data.regions[data.regions.length > 1 ? i : 0];
    const out = new Int32Array(data.size[0] * data.size[1]);
    for (let r = 0, at = 0; r < runs.length; at += runs[r + 1], r += 2) out.fill(runs[r], at, at + runs[r + 1]);
    return out;
  };

  const hatching = (() => {
    const tile = canvas(PERIOD, PERIOD);
    const pen = tile.getContext("2d");
    pen.lineWidth = PERIOD / 3;
    for (const at of [-PERIOD, 0, PERIOD]) {
      pen.moveTo(at - 1, PERIOD + 1);
      pen.lineTo(at + PERIOD + 1, -1);
    }
    pen.stroke();
    return tile;
  })();

  // One pixel for each of the picture's, by the colour and the strength of its region.
  const coloured = (map, [height, width], looks) => {
    const pixels = new Uint8ClampedArray(4 * map.length);
    map.forEach((j, at) => looks[j] && pixels.set(looks[j], 4 * at));
    const out = canvas(width, height);
    out.getContext("2d").putImageData(new ImageData(pixels, width, height), 0, 0);
    return out;
  };

  const border = (map, [height, width], top, dots) => {
    const path = new Path2D();
    const inside = (y, x) => y >= 0 && x >= 0 && y < height && x < width && top.has(map[y * width + x]);
    const within = (n, most) => Math.min(Math.max(n * dots, LINE), most * dots - LINE); // seen whole at the picture's sides
    const line = (x, y, dx, dy) => {
      path.moveTo(within(x, width), within(y, height));
      path.lineTo(within(x + dx, width), within(y + dy, height));
    };
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        if (!inside(y, x)) continue;
        if (!inside(y - 1, x)) line(x, y, 1, 0);
        if (!inside(y + 1, x)) line(x, y + 1, 1, 0);
        if (!inside(y, x - 1)) line(x, y, 0, 1);
        if (!inside(y, x + 1)) line(x + 1, y, 0, 1);
      }
    }
    return path;
  };

  const paint = (data, node, map, said, top, strength) => {
    const fills = [];
    const lines = [];
    for (const { j, weight, about } of said) {
      const share = strength(weight);
      const [ground, line] = data.tones[about].map(channels);
      if (weight < 0) lines[j] = [...line, 255 * share];
      else fills[j] = [...ground, 255 * data.fill * share];
    }
    const [wide, tall] = [node.width, node.height];
    const pen = node.getContext("2d");
    pen.clearRect(0, 0, wide, tall);
    pen.imageSmoothingEnabled = false;
    // First the lines, cut out of their colours, then the filled regions beside them.
    pen.drawImage(coloured(map, data.size, lines), 0, 0, wide, tall);
    pen.globalCompositeOperation = "destination-in";
    pen.fillStyle = pen.createPattern(hatching, "repeat");
    pen.fillRect(0, 0, wide, tall);
    pen.globalCompositeOperation = "source-over";
    pen.drawImage(coloured(map, data.size, fills), 0, 0, wide, tall);
    const path = border(map, data.size, top, wide / data.size[1]);
    pen.lineCap = "square";
    for (const [width, colour] of [[LINE + 4, "#ffffff"], [LINE, "#1b1f26"]]) {
      pen.lineWidth = width;
      pen.strokeStyle = colour;
      pen.stroke(path);
    }
  };

  // What is in sight or near it is painted at once, the rest when it comes there, is printed, or there is nothing else to do.
  const jobs = new Map();
  const near = new WeakSet();
  const soon = window.requestIdleCallback || ((job) => setTimeout(job, 50));
  const work = (node) => {
    const job = jobs.get(node);
    jobs.delete(node);
    if (job && node.isConnected) job();
  };
  const rest = () => {
    for (const node of [...jobs.keys()].slice(0, 1)) work(node);
    if (jobs.size) soon(rest);
  };
  const watch = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting) near.add(target);
        else near.delete(target);
        if (isIntersecting) work(target);
      }
    },
    { rootMargin: "400px" },
  );
  const later = (node, job) => {
    if (!jobs.size) soon(rest);
    jobs.set(node, job);
    if (near.has(node)) work(node);
  };
  const finish = () => [...jobs.keys()].forEach(work);

  const image = (address, alt) => {
    const node = document.createElement("img");
    node.alt = alt;
    node.src = address;
    return node;
  };

  // A picture, and what is laid over it, in a box of its shape.
  const shot = (data, ...parts) => {
    const box = document.createElement("span");
    box.className = "shot" + (few(data) ? " small" : "");
    box.style.setProperty("aspect-ratio", data.size[1] + "/" + data.size[0]);
    box.append(...parts);
    return box;
  };

  // The overlay of a row, painted whenever the choice of the reader changes.
  const overlay = (data, i, label) => {
    const map = regions(data, i);
    const [height, width] = data.size;
    const dots = Math.max(1, Math.ceil(DOTS / Math.max(height, width)));
    const node = canvas(width * dots, height * dots);
    let here = new Map();
    node.setAttribute("role", "img");
    node.addEventListener("pointermove", (event) => {
      const place = node.getBoundingClientRect();
      const [x, y] = [(event.clientX - place.left) / place.width, (event.clientY - place.top) / place.height];
      const j = map[Math.min(height - 1, Math.max(0, Math.floor(y * height))) * width + Math.min(width - 1, Math.max(0, Math.floor(x * width)))];
      node.title = here.has(j) ? label(here.get(j)) : "";
    });
    const box = shot(data, image(data.pictures[i], ""), node);
    box.classList.add("dull");
    watch.observe(node);
    return {
      box,
      // `view` tells all that the features say, the top ones of it, how strongly each is shown, and all of it in words.
      paint: (view) =>
        later(node, () => {
          const { said, top, strength, name } = view();
          here = new Map(said.map((each) => [each.j, each]));
          paint(data, node, map, said, new Set(top.map(({ j }) => j)), strength);
          node.setAttribute("aria-label", name);
        }),
    };
  };

  const input = (data, i) => shot(data, image(data.pictures[i], "The picture of row " + i));
  const changed = (data, i, changes, name) => shot(data, image(data.pictures[i], ""), image(changes[i], name));

  return { few, finish, overlay, input, changed };
})();
