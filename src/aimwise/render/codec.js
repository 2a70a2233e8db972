// Numbers that were written as a few signs each.
const codec = (() => {
  const SIGNS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const values = new Uint8Array(128);
  [...SIGNS].forEach((sign, i) => (values[sign.charCodeAt(0)] = i));

  // What every feature of a row says of every class: for each feature a list, null for what is not a number.
  const weights = (data, i) => {
    const text = data.weights[i];
    const many = data.classes.length;
    const half = 64 ** data.signs / 2 - 1;
    const rows = new Array(text.length / data.signs / many);
    for (let j = 0, at = 0; j < rows.length; j++) {
      const row = new Array(many);
      for (let c = 0; c < many; c++) {
        let code = 0;
        for (let n = 0; n < data.signs; n++) code = 64 * code + values[text.charCodeAt(at++)];
        row[c] = code > 2 * half ? null : (code - half) * data.units[i];
      }
      rows[j] = row;
    }
    return rows;
  };

  // Start and end of every word, from how far it is from the last one and how long it is.
  const spans = (text) => {
    const out = [];
    for (let at = 0, place = 0; at < text.length; ) {
      let number = 0;
      for (let shift = 0, more = true; more; shift += 5) {
        const value = values[text.charCodeAt(at++)];
        number += (value & 31) << shift;
        more = value > 31;
      }
      place += number;
      out.push(place);
    }
    return out;
  };

  return { weights, spans };
})();
