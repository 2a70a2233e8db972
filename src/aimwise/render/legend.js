// How to read a view: samples of what is drawn, each with its meaning, and the scale.
const legend = (() => {
  const { make, signed } = say;
  const ALL = -2; // all classes at once, as the class switch counts its choices
  const MARGIN = "the weight for one class less the mean weight for the others";

  return (data, { picked, top, full }) => {
    const [reading, viewing] = [data.kind === "text", data.kind === "image"];
    const all = picked === ALL;
    const shaded = reading || viewing; // by strength, on one scale
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
    const many = top === 1 ? "the one" : "the " + top;
    const most = " with the largest " + size + (top === 1 ? "" : "s");
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
    if (shaded && top > 0) {
      parts.push(all ? "" : ", ", sample(viewing ? "first" : "top", "bold", 0), viewing ? " outlined" : "", " are " + many);
      parts.push(viewing && !all ? (top === 1 ? " that speaks" : " that speak") + " most for it" : most);
    }
    if (parts.length) entry(what[0].toUpperCase() + what.slice(1), ...parts);
    if (shaded && full > 0) {
      const steps = all ? [0, 0.25, 0.5, 0.75, 1] : [-1, -0.5, 0, 0.5, 1];
      const marks = steps.map((s) => {
        const said = signed(s * full, full);
        const mark = sample(s < 0 ? "against" : "for", said, Math.abs(s));
        if (reading) return mark;
        const pair = make("span", "step");
        pair.append(mark, " " + said);
        return pair;
      });
      entry(all ? "Margin" : "Weight", ...marks.flatMap((mark) => [mark, " "]), "and more" + (all ? "; " + MARGIN : ""));
    } else if (all && !shaded) entry("Margin", MARGIN);
    return list;
  };
})();
