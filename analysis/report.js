// The step inspector: draws one step of one request at a time. All text enters the page as text, never as markup.
"use strict";
(() => {
  const source = document.getElementById("steps-data");
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const at = (id) => document.getElementById(id);
  const COLUMN = 126, ROW = 27, WIDTH = 106, HEIGHT = 22, LONGEST = 8, PAUSE = 900; // pixels, characters, milliseconds
  const MEMORIES = [[1, "M1", "1"], [2, "M2", "2"], [4, "M3", "3"], [8, "suffix", "S"]];
  let request = 0, step = 0, timer = null;

  function make(name, attributes = {}, ...inside) {
    const svg = ["svg", "g", "rect", "path", "text", "title"].includes(name);
    const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...inside);
    return made;
  }

  const text = (id) => data.requests[request].texts[id] ?? `#${id}`;
  const visible = (id) => text(id).replaceAll(" ", "␣").replaceAll("\n", "⏎").replaceAll("\t", "⇥");
  const short = (words) => (words.length > LONGEST ? `${words.slice(0, LONGEST - 1)}…` : words);

  // What a node's source bits say: a style, a mark, words.
  function memory(bits) {
    const held = MEMORIES.filter(([bit]) => bits & bit);
    if (!held.length) return { style: "other", mark: "–", words: "no memory named" };
    const style = held.length > 1 ? "mixture" : held[0][1].toLowerCase();
    return { style, mark: held.map((it) => it[2]).join(""), words: held.map((it) => it[1]).join(" and ") };
  }

  // Nodes with depth, rank among their siblings, place; behind the drafted ones the target's own token, if it gave one.
  function laid([tokens, parents, sources, path, committed]) {
    const nodes = tokens.map((id, index) => (
      { id, index, parent: parents[index], bits: sources[index], accepted: path.includes(index), own: false }
    ));
    if (committed.length > path.length) {
      const parent = path.length ? path[path.length - 1] : -1;
      nodes.push({ id: committed[path.length], index: nodes.length, parent, bits: 0, accepted: false, own: true });
    }
    const root = { index: -1, depth: 0, children: [] };
    for (const node of nodes) {
      const parent = node.parent < 0 ? root : nodes[node.parent];
      node.children = [];
      node.depth = parent.depth + 1;
      node.rank = parent.children.push(node);
    }
    let rows = 0;
    (function place(node) { // a parent stands beside its first child
      if (!node.children.length) node.row = rows++;
      node.children.forEach(place);
      if (node.children.length) node.row = node.children[0].row;
    })(root);
    return { root, nodes, rows, depth: Math.max(0, ...nodes.map((node) => node.depth)) };
  }

  const words = (node) => (node.own
    ? `the target's own token, ${JSON.stringify(text(node.id))} (${node.id})`
    : `node ${node.index}, parent ${node.parent < 0 ? "root" : node.parent}, depth ${node.depth}, rank ${node.rank}: `
      + `${JSON.stringify(text(node.id))} (${node.id}), from ${memory(node.bits).words}`
      + (node.accepted ? ", accepted" : ""));

  function box(node, label) {
    const x = node.depth * COLUMN + 1, y = node.row * ROW + 2;
    const kind = node.index < 0 ? "root" : node.own ? "own" : node.accepted ? "accepted" : "rejected";
    const group = make("g", { class: `node ${kind}`, transform: `translate(${x} ${y})` });
    group.append(make("rect", { width: WIDTH, height: HEIGHT, rx: 4, class: "frame" }));
    if (kind === "root") {
      group.append(make("text", { x: 6, y: 15 }, label));
      return group;
    }
    const { style, mark } = node.own ? { style: "none", mark: "+" } : memory(node.bits);
    const wide = 8 + 6.5 * mark.length;
    group.append(make("title", {}, words(node)));
    group.append(make("rect", { width: wide, height: HEIGHT, rx: 4, class: `mark ${style}` }));
    group.append(make("text", { x: wide / 2, y: 15, class: `letter ${style}` }, mark));
    group.append(make("text", { x: wide + 4, y: 15 }, (node.accepted ? "✓" : "") + label));
    if (!node.own) group.append(make("text", { x: WIDTH - 4, y: 9, class: "rank" }, String(node.rank)));
    return group;
  }

  function edge(parent, node) {
    const x = parent.depth * COLUMN + 1 + WIDTH, y = parent.row * ROW + 2 + HEIGHT / 2;
    const toX = node.depth * COLUMN + 1, toY = node.row * ROW + 2 + HEIGHT / 2, middle = (x + toX) / 2;
    const kind = node.own ? "own" : node.accepted ? "accepted" : "rejected";
    return make("path", { class: `edge ${kind}`, d: `M${x} ${y}H${middle}V${toY}H${toX}` });
  }

  function drawTree(root, nodes, rows, depth, before) {
    const width = depth * COLUMN + WIDTH + 4, height = Math.max(1, rows) * ROW + 4;
    const told = `${nodes.filter((node) => !node.own).length} drafted nodes; a table below lists them`;
    const svg = make("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": told });
    const order = [...nodes].sort((a, b) => (a.accepted || a.own) - (b.accepted || b.own)); // what counts lies on top
    for (const node of order) svg.append(edge(node.parent < 0 ? root : nodes[node.parent], node));
    svg.append(box(root, short(visible(before))));
    for (const node of nodes) svg.append(box(node, short(visible(node.id))));
    at("tree").replaceChildren(svg);
    const last = nodes.findLast((node) => node.own || node.accepted) ?? root;
    at("tree").scrollTo(0, last.row * ROW - at("tree").clientHeight / 2); // what was accepted is in sight
  }

  function listNodes(nodes) {
    const heads = ["node", "parent", "depth", "rank", "token", "id", "memory", ""];
    const cells = (node) => (
      [node.index, node.parent < 0 ? "root" : node.parent, node.depth, node.rank, visible(node.id), node.id,
        memory(node.bits).words, node.accepted ? "accepted" : ""]
    );
    at("nodes").replaceChildren(
      make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", { scope: "col" }, head)))),
      make("tbody", {}, ...nodes.filter((node) => !node.own).map((node) => (
        make("tr", node.accepted ? { class: "accepted" } : {}, ...cells(node).map((it) => make("td", {}, String(it))))
      ))),
    );
  }

  // The answer up to this step, whose tokens are marked.
  function drawAnswer(steps, first) {
    const earlier = [first, ...steps.slice(0, step).flatMap((it) => it[4])];
    const [, , , path, committed] = steps[step];
    const now = committed.map((id, place) => (
      make("ins", { class: place < path.length ? "accepted" : "own" }, text(id).replaceAll("\n", "⏎\n"))
    ));
    at("answer").replaceChildren(earlier.map(text).join(""), ...now);
    return earlier[earlier.length - 1];
  }

  function drawStep() {
    const { steps, first } = data.requests[request];
    const [tokens, , , path, committed] = steps[step];
    const before = drawAnswer(steps, first);
    const { root, nodes, rows, depth } = laid(steps[step]);
    drawTree(root, nodes, rows, depth, before);
    listNodes(nodes);
    at("caption").textContent = `Step ${step + 1} of ${steps.length}: ${tokens.length} drafted, `
      + `${path.length} accepted, ${committed.length} committed`;
    at("slider").value = step + 1;
    at("previous").disabled = step === 0;
    at("next").disabled = step === steps.length - 1;
    at("inspector").dataset.step = step + 1;
  }

  function drawRequest() {
    const it = data.requests[request];
    at("request").value = request;
    at("question").textContent = it.question;
    at("prompt").textContent = it.prompt;
    at("about").textContent = [
      `${it.row}, turn ${it.turn}`, it.category, `tau ${it.tau.toFixed(2)}`, it.why.join(", "),
      it.verdict || "output equal to AR's",
    ].filter(Boolean).join("; ");
    at("images").replaceChildren(...it.images.map((place, number) => (
      make("img", { src: data.images[place], alt: `picture ${number + 1} of the question` })
    )));
    at("slider").max = it.steps.length;
  }

  function show(newRequest, newStep) {
    const other = newRequest !== request;
    request = Math.min(Math.max(newRequest, 0), data.requests.length - 1);
    step = Math.min(Math.max(newStep, 0), data.requests[request].steps.length - 1);
    if (other) drawRequest();
    drawStep();
  }

  function go(newRequest, newStep) {
    show(newRequest, newStep);
    location.replace(`#request=${request + 1}&step=${step + 1}`); // a page to link to, none to go back through
  }

  function pause() {
    clearInterval(timer);
    timer = null;
    at("play").textContent = "Play";
    at("play").setAttribute("aria-pressed", "false");
    at("caption").setAttribute("aria-live", "polite");
  }

  function play() {
    if (step === data.requests[request].steps.length - 1) go(request, 0);
    at("play").textContent = "Pause";
    at("play").setAttribute("aria-pressed", "true");
    at("caption").setAttribute("aria-live", "off"); // no reader could keep up
    timer = setInterval(() => {
      go(request, step + 1);
      if (step === data.requests[request].steps.length - 1) pause();
    }, PAUSE);
  }

  function fromAddress() {
    const asked = new URLSearchParams(location.hash.slice(1));
    if (!asked.has("step") && !asked.has("request")) return;
    show(Number(asked.get("request") ?? request + 1) - 1 || 0, Number(asked.get("step") ?? 1) - 1 || 0);
  }

  function byKey(event) {
    const away = event.altKey || event.ctrlKey || event.metaKey || event.shiftKey;
    const free = event.target === document.body || (at("inspector").contains(event.target)
      && !event.target.closest("select, input, .scroll"));
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!move || away || !free) return;
    event.preventDefault();
    pause();
    go(request, step + move);
  }

  data.cells.forEach((label, cell) => {
    const group = make("optgroup", { label });
    data.requests.forEach((it, place) => {
      if (it.cell !== cell) return;
      group.append(make("option", { value: place }, `${it.row}, turn ${it.turn}: ${it.why.join(", ")}`));
    });
    at("request").append(group);
  });
  at("request").addEventListener("change", (event) => { pause(); go(Number(event.target.value), 0); });
  at("slider").addEventListener("input", (event) => { pause(); go(request, Number(event.target.value) - 1); });
  at("previous").addEventListener("click", () => { pause(); go(request, step - 1); });
  at("next").addEventListener("click", () => { pause(); go(request, step + 1); });
  at("play").addEventListener("click", () => (timer ? pause() : play()));
  document.addEventListener("keydown", byKey);
  window.addEventListener("hashchange", fromAddress);
  drawRequest();
  drawStep();
  fromAddress();
})();
