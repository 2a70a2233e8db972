// The form for one input of an explainer: a text, a row, an image or token ids. Each kind tells its value, takes one back, and
// says what is wrong with it. Names reach the page through textContent alone.
const forms = (() => {
  const { make } = say;
  const MANY = 200; // levels of a category that fit into a list to choose from
  const FEW = 64; // pixels of a side below which an image is shown with sharp ones

  class Wrong extends Error {
    constructor(message, node) {
      super(message);
      this.node = node;
    }
  }

  let count = 0;
  const field = (name, node) => {
    const box = make("div", "field");
    const label = make("label");
    label.append(say.breakable("", name));
    node.id = "input-" + count++;
    label.htmlFor = node.id;
    box.append(label, node);
    return box;
  };
  const option = (value, text) => {
    const node = make("option", "", text);
    node.value = value;
    return node;
  };

  const text = (input) => {
    const area = make("textarea");
    area.rows = 6;
    area.maxLength = input.most_characters;
    area.placeholder = "Paste or type a text";
    area.dir = "auto";
    return {
      node: field("Text", area),
      value: () => {
        if (!area.value.trim()) throw new Wrong("Please paste or type a text first.", area);
        return area.value;
      },
      fill: (value) => (area.value = value),
    };
  };

  const ids = (input) => {
    const area = make("textarea");
    area.rows = 3;
    area.placeholder = "12 7 305";
    return {
      node: field("Token ids from 0 to " + (input.ids - 1) + ", spaces between them", area),
      value: () => {
        const found = area.value.trim().split(/[\s,]+/).filter(Boolean);
        if (!found.length || !found.every((each) => /^\d+$/.test(each))) throw new Wrong("Please write whole numbers with spaces between them.", area);
        return found.map(Number);
      },
      fill: (value) => (area.value = value.join(" ")),
    };
  };

  // One column: a node, how to read it, and how to fill it. An empty field is a missing value.
  const choice = (values, names) => {
    const node = make("select");
    node.append(option("", "(missing)"), ...values.map((value, n) => option(String(n), names[n])));
    return {
      node,
      read: () => (node.value === "" ? null : values[Number(node.value)]),
      write: (value) => {
        const at = values.indexOf(value);
        node.value = at < 0 ? "" : String(at);
      },
    };
  };
  const typed = (kind, name) => {
    const node = make("input");
    const number = ["number", "integer", "span"].includes(kind);
    node.type = number ? "number" : kind === "date" ? "datetime-local" : "text";
    if (number) node.step = kind === "integer" ? "1" : "any";
    if (kind === "date") node.step = "1";
    if (number) node.inputMode = "decimal";
    return {
      node,
      read: () => {
        if (node.validity.badInput || (number && node.validity.stepMismatch)) {
          throw new Wrong(name + ": please write a " + (kind === "integer" ? "whole number" : number ? "number" : "date") + ".", node);
        }
        if (node.value === "") return null;
        return number ? Number(node.value) : node.value;
      },
      write: (value) => (node.value = value === null ? "" : kind === "date" ? String(value).slice(0, 19) : String(value)),
    };
  };
  const column = ({ name, kind, levels }) => {
    if (kind === "boolean") return choice([true, false], ["yes", "no"]);
    if (levels !== null && levels.length <= MANY) return choice(levels, levels.map(String));
    return typed(levels === null ? kind : "text", name);
  };

  const table = (input) => {
    const parts = input.columns.map((one) => ({ ...column(one), name: one.name, kind: one.kind, example: one.example }));
    const grid = make("div", "columns");
    grid.append(
      ...parts.map((part) => {
        const box = field(part.name + (part.kind === "span" ? " (seconds)" : ""), part.node);
        part.write(part.example);
        return box;
      }),
    );
    const group = make("fieldset", "plain");
    group.append(make("legend", "label", "Row; it starts from usual values"), grid);
    return {
      node: group,
      value: () => Object.fromEntries(parts.map((part) => [part.name, part.read()])),
      fill: (value) => parts.forEach((part) => part.write(value[part.name] ?? null)),
    };
  };

  // The image is made as small as the explainer takes it before it leaves the page; a link can then hold it.
  const image = ({ width, height }, changed) => {
    const drop = make("div", "drop");
    const canvas = make("canvas", Math.max(width, height) <= FEW ? "small" : "");
    const file = make("input");
    let filled = false;
    [canvas.width, canvas.height] = [width, height];
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", "No image yet");
    file.type = "file";
    file.accept = "image/*";
    const draw = (source, name) => {
      const pen = canvas.getContext("2d");
      pen.clearRect(0, 0, width, height);
      pen.imageSmoothingQuality = "high";
      pen.drawImage(source, 0, 0, width, height);
      canvas.setAttribute("aria-label", name);
      filled = true;
    };
    const take = async (blob) => {
      try {
        const made = await createImageBitmap(blob);
        draw(made, "The chosen image, " + made.width + " by " + made.height + " pixels, shown as the model gets it");
        made.close();
        changed();
      } catch {
        throw new Wrong("This file is not an image that the browser can read.", file);
      }
    };
    const report = (job) => job.catch((error) => changed(error));
    file.addEventListener("change", () => file.files.length && report(take(file.files[0])));
    drop.addEventListener("dragover", (event) => {
      event.preventDefault();
      drop.classList.add("over");
    });
    drop.addEventListener("dragleave", () => drop.classList.remove("over"));
    drop.addEventListener("drop", (event) => {
      event.preventDefault();
      drop.classList.remove("over");
      if (event.dataTransfer.files.length) report(take(event.dataTransfer.files[0]));
    });
    drop.append(canvas, field("Drop an image here, or choose a file; it is resized to " + width + " by " + height + " pixels", file));
    return {
      node: drop,
      value: () => {
        if (!filled) throw new Wrong("Please choose or drop an image first.", file);
        return canvas.toDataURL("image/png");
      },
      fill: async (value) => {
        const picture = new Image();
        if (!String(value).startsWith("data:image/png;base64,")) throw new Wrong("The link holds no image.", file);
        picture.src = value;
        await picture.decode();
        draw(picture, "The image of the link");
      },
    };
  };

  return { Wrong, make: (about, changed) => ({ text, ids, table, image })[about.kind](about.input, changed) };
})();
