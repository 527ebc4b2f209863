"use strict";
// Shows what the crate computed: the bits of each word, and the keys that each size holds. No hash
// and no formula of a filter is repeated here.
const data = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);

// The small filter.
const state = { mode: "insert", words: new Set(), set: new Set() };
const bits = Array.from({ length: data.filter.bits }, () => {
  const bit = document.createElement("span");
  bit.className = "bit";
  at("bits").append(bit);
  return bit;
});

const maybe = (word) => word.bits.every((bit) => state.set.has(bit));
const percent = (share) => `${(100 * share).toFixed(1)} %`;

function show(met) {
  bits.forEach((bit, index) => {
    bit.classList.toggle("set", state.set.has(index));
    bit.classList.toggle("met", met.includes(index));
  });
  const wrong = [];
  for (const word of data.filter.words) {
    const inside = state.words.has(word.word);
    const mistaken = !inside && maybe(word);
    word.button.classList.toggle("in", inside);
    word.button.classList.toggle("wrong", mistaken);
    if (mistaken) wrong.push(word.word);
  }
  tell(wrong);
}

function tell(wrong) {
  const [inside, set] = [state.words.size, state.set.size];
  const others = data.filter.words.length - inside;
  at("fill").textContent = `${inside} words in, ${set} of ${bits.length} bits set: at this fill, the ` +
    `filter answers maybe to ${percent(data.filter.rates[set])} of all other words.`;
  at("wrong").textContent = wrong.length === 0 ? "" :
    `False positives: ${wrong.length} of the ${others} others here (${percent(wrong.length / others)}): ` +
    `${wrong.slice(0, 12).join(", ")}${wrong.length > 12 ? " ..." : "."}`;
}

function insert(word) {
  word.bits.forEach((bit) => state.set.add(bit));
  state.words.add(word.word);
  at("answer").textContent = `${word.word} inserted.`;
  show(word.bits);
}

function look(word) {
  const truth = state.words.has(word.word) ? "it is in" : "a false positive";
  at("answer").textContent = maybe(word) ? `${word.word}: maybe (${truth}).` : `${word.word}: absent.`;
  show(word.bits);
}

for (const word of data.filter.words) {
  word.button = document.createElement("button");
  word.button.type = "button";
  word.button.textContent = word.word;
  word.button.addEventListener("click", () => (state.mode === "insert" ? insert(word) : look(word)));
  at("words").append(word.button);
}
at("more").addEventListener("click", () => {
  const others = data.filter.words.filter((word) => !state.words.has(word.word) && !word.button.hidden);
  others.slice(0, 10).forEach(insert);
});
at("find").addEventListener("input", () => {
  const part = at("find").value.trim().toLowerCase();
  for (const word of data.filter.words) word.button.hidden = !word.word.toLowerCase().includes(part);
});
for (const [id, mode] of [["insert", "insert"], ["look", "look up"]]) {
  at(id).addEventListener("click", () => {
    state.mode = mode;
    at("mode").textContent = mode;
  });
}
at("clear").addEventListener("click", () => {
  state.words.clear();
  state.set.clear();
  at("answer").textContent = "No word inserted yet.";
  show([]);
});
show([]);

// The sizing graph.
const { sizing } = data;
const count = (value) => value.toLocaleString("en");

function place(point) {
  return `${(40 + 370 * point[0]).toFixed(1)} ${(200 - 190 * point[1]).toFixed(1)}`;
}

function size() {
  const [m, k, p] = ["m", "k", "p"].map((id) => Number(at(id).value));
  const keys = sizing.items[m][k][p];
  const most = sizing.most_items[m];
  at("m-value").textContent = sizing.sizes[m];
  at("k-value").textContent = sizing.probes[k];
  at("p-value").textContent = sizing.rates[p].text;
  at("n").textContent = count(keys);
  at("n-best").textContent = count(sizing.best_items[m][k]);
  at("curve-line").setAttribute("d", "M" + sizing.curves[k].map(place).join("L"));
  const share = Math.min(keys / most, 1);
  at("curve-limit").setAttribute("d", `M${place([share, 0])}L${place([share, 1])}`);
  at("curve-end").textContent = count(most);
}

for (const [id, values, start] of [["m", sizing.sizes, 4], ["k", sizing.probes, 6], ["p", sizing.rates, 2]]) {
  at(id).max = values.length - 1;
  at(id).value = start;
  at(id).addEventListener("input", size);
}
size();
