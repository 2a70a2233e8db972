"use strict";
// Numbers and names as people write them, and the nodes that hold them.
const say = (() => {
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

  return { make, signed, percent, fill, breakable, plural };
})();
