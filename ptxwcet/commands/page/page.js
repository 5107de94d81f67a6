"use strict";
// A kernel's code, graph and chart, linked by its instructions: data-i of lines, data-b of blocks.
const SVG = "http://www.w3.org/2000/svg";
const HEAD = 26, PAD = 12, LINE = 14, BETWEEN = 30, FOLDED = 206;

function element(name, attributes, parent, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.appendChild(made);
  return made;
}

class Graph {
  constructor(pane, data, pick) {
    this.pane = pane;
    this.data = data;
    this.pick = pick;
    this.blocks = new Map(data.blocks.map((block) => [block.id, block]));
    this.loops = new Map(data.loops.map((loop) => [loop.id, loop]));
    this.regions = new Map(data.regions.map((region) => [region.loop, region]));
    this.folded = new Set(data.is_folded ? this.loops.keys() : []);
    this.chosen = new Set();
    const svg = element("svg", {role: "img", "aria-label": "control-flow graph"}, pane);
    this.svg = element("g", {class: "world"}, svg);
    this.draw();
    this.fit();
    this.listen();
  }

  // Sizes first, from the innermost loops on: layers are as high as what is in them.
  size(key) {
    const region = this.regions.get(key);
    const heights = [];
    for (const item of region.items) {
      item.height = item.what === "block" ? 10 + LINE * this.blocks.get(item.id).lines.length
        : item.what === "port" ? 2 : this.folded.has(item.id) ? HEAD : this.size(item.id).height;
      item.drawn = item.what === "loop" && this.folded.has(item.id) ? FOLDED : item.width;
      heights[item.layer] = Math.max(heights[item.layer] || 0, item.height);
    }
    const tops = [];
    let top = key === null ? PAD : HEAD + PAD;
    heights.forEach((height, layer) => { tops[layer] = top; top += height + BETWEEN; });
    region.tops = tops;
    region.heights = heights;
    region.height = top - BETWEEN + PAD;
    return region;
  }

  draw() {
    this.svg.replaceChildren();
    this.places = new Map();
    const marks = element("defs", {}, this.svg);
    for (const kind of ["plain", "worst", "divergent"]) {
      const mark = element("marker", {id: `${this.data.id}-${kind}`, class: kind, refX: 7, refY: 4,
        viewBox: "0 0 8 8", markerWidth: 9, markerHeight: 9, orient: "auto",
        markerUnits: "userSpaceOnUse"}, marks);
      element("path", {d: "M0 0 8 4 0 8z"}, mark);
    }
    const root = this.size(null);
    this.width = root.width;
    this.height = root.height;
    this.region(null, 0, 0, this.svg);
    for (const one of this.data.divergent) this.divergent(one);
    this.mark();
  }

  region(key, left, top, parent) {
    const region = this.regions.get(key);
    const wires = element("g", {}, parent);
    for (const item of region.items) {
      item.x = left + item.middle;
      item.y = top + region.tops[item.layer];
      if (item.what === "block") this.block(item, parent);
      if (item.what === "loop") this.loop(item, parent);
      if (item.what === "port") item.y = top + region.height;
    }
    let lane = 0;
    for (const wire of region.wires) {
      if (wire.is_back) lane += 1;
      this.wire(region, wire, left, top, lane, wires);
    }
  }

  block(item, parent) {
    const block = this.blocks.get(item.id);
    const seen = this.data.has_path && !block.executions && block.kind !== "exit";
    const group = element("g", {class: `block ${block.kind}${seen ? " never" : ""}`,
      "data-b": item.id, style: `--w:${block.heat}`}, parent);
    element("rect", {x: item.x - item.width / 2, y: item.y, width: item.width,
      height: item.height, rx: 4}, group);
    block.lines.forEach((line, number) => element("text", {x: item.x - item.width / 2 + 7,
      y: item.y + 16 + LINE * number}, group, short(line, number ? 34 : 29)));
    element("title", {}, group, block.lines.join("\n"));
    this.places.set(item.id, {item, group});
  }

  loop(item, parent) {
    const loop = this.loops.get(item.id), folded = this.folded.has(item.id);
    const heat = Math.hypot(...[...this.inside(item.id)].map((one) => this.blocks.get(one).heat));
    const group = element("g", {class: `loop${folded ? " folded" : ""}`,
      style: `--w:${Math.min(heat, 1)}`}, parent);
    const left = item.x - item.drawn / 2;
    element("rect", {x: left, y: item.y, width: item.drawn, height: item.height, rx: 8}, group);
    if (!folded) this.region(item.id, left, item.y, group);
    const head = element("g", {class: "fold", "data-fold": item.id}, group);
    element("rect", {x: left, y: item.y, width: item.drawn, height: HEAD}, head);
    const text = `${folded ? "⊞" : "⊟"} loop ${loop.name}${loop.bound ? ": " + loop.bound : ""}`;
    element("text", {x: left + 8, y: item.y + 17}, head, short(text, item.drawn / 6.9));
    element("title", {}, head, `${text}\n${loop.reason}`);
    if (!folded) return;
    const inside = [...this.inside(item.id)];
    group.setAttribute("data-inside", inside.join(" "));
    for (const block of inside) this.places.set(block, {item, group});
  }

  * inside(key) {
    for (const item of this.regions.get(key).items) {
      if (item.what === "block") yield item.id;
      if (item.what === "loop") yield* this.inside(item.id);
    }
  }

  wire(region, wire, left, top, lane, parent) {
    const end = region.items[wire.end], edge = this.data.edges[wire.edge];
    const start = wire.start === null ? null : region.items[wire.start];
    const into = end.what === "port" ? end.x : this.entry(end);
    const last = end.what !== "port" && !(end.what === "loop" && !this.folded.has(end.id));
    const kind = edge.is_worst ? "worst" : "plain";
    let path;
    if (wire.is_back) {
      const side = left + region.width - 4 - 10 * (lane - 1);
      const low = start.y + start.height, high = end.y;
      path = `M${start.x + 14} ${low} C${start.x + 14} ${low + 16} ${side} ${low + 16} ` +
        `${side} ${low} L${side} ${high} C${side} ${high - 16} ${end.x + 14} ${high - 16} ` +
        `${end.x + 14} ${high}`;
    } else {
      const points = [start === null ? [into, top] : [this.leave(start), start.y + start.height]];
      wire.bends.forEach((x, number) => {
        const layer = start.layer + 1 + number, begin = top + region.tops[layer];
        points.push([left + x, begin], [left + x, begin + region.heights[layer]]);
      });
      points.push([into, end.y]);
      path = curve(points);
    }
    const line = element("path", {d: path, class: kind, "data-edge": `${edge.start} ${edge.end}`},
      parent);
    if (last) line.setAttribute("marker-end", `url(#${this.data.id}-${kind})`);
    if (edge.label && start !== null && start.what === "block") {
      element("text", {x: start.x + (wire.is_back ? 22 : into < start.x - 4 ? -16 : 6),
        y: start.y + start.height + 13}, parent, edge.label);
    }
  }

  entry(item) {
    if (item.what !== "loop" || this.folded.has(item.id)) return item.x;
    const region = this.regions.get(item.id);
    const header = region.items.find((one) => one.layer === 0 && one.what !== "port");
    return item.x - item.drawn / 2 + header.middle;
  }

  leave(item) {
    if (item.what !== "loop" || this.folded.has(item.id)) return item.x;
    const port = this.regions.get(item.id).items.find((one) => one.what === "port");
    return item.x - item.drawn / 2 + port.middle;
  }

  divergent(one) {
    const a = this.places.get(one.start), b = this.places.get(one.end);
    if (!a || !b || a.item === b.item) return;
    const right = a.item.x < b.item.x ? 1 : -1;
    const from = [a.item.x + right * a.item.drawn / 2, a.item.y + a.item.height / 2];
    const to = [b.item.x - right * b.item.drawn / 2, b.item.y + b.item.height / 2];
    const line = element("path", {class: "divergent", d: `M${from} C${from[0] + right * 40} ` +
      `${from[1]} ${to[0] - right * 40} ${to[1]} ${to}`,
      "marker-end": `url(#${this.data.id}-divergent)`}, this.svg);
    element("title", {}, line, one.standing);
  }

  fit() {
    const box = this.pane.getBoundingClientRect();
    const scale = Math.max(this.width / (box.width || 600), Math.min(this.height /
      (box.height || 600), 1.7), .8);
    this.view(this.width / 2 - scale * box.width / 2, -6, scale);
  }

  view(left, top, scale) {
    // a group is moved: a new viewBox would lay out every text again
    this.at = [left, top, scale];
    this.svg.setAttribute("transform", `scale(${1 / scale}) translate(${-left} ${-top})`);
  }

  zoom(factor, x, y) {
    const [left, top, scale] = this.at;
    const now = Math.min(Math.max(scale * factor, .15), 12);
    this.view(left + (scale - now) * x, top + (scale - now) * y, now);
  }

  listen() {
    let drag = null, moved = false;
    this.pane.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.zoom(event.deltaY > 0 ? 1.15 : 1 / 1.15, event.offsetX, event.offsetY);
    }, {passive: false});
    this.pane.addEventListener("pointerdown", (event) => {
      drag = [event.clientX, event.clientY, ...this.at];
      moved = false;
    });
    this.pane.addEventListener("pointermove", (event) => {
      if (!drag || !event.buttons) return;
      const [x, y, left, top, scale] = drag;
      if (Math.abs(event.clientX - x) + Math.abs(event.clientY - y) > 4) moved = true;
      if (moved) this.view(left - scale * (event.clientX - x), top - scale * (event.clientY - y),
        scale);
    });
    this.pane.addEventListener("pointerup", () => { drag = null; });
    this.pane.addEventListener("click", (event) => {
      if (moved) return;
      const fold = event.target.closest("[data-fold]"), block = event.target.closest("[data-b]");
      if (fold) this.toggle(Number(fold.dataset.fold));
      else if (block) this.pick([Number(block.dataset.b)]);
    });
  }

  toggle(loop) {
    if (!this.folded.delete(loop)) this.folded.add(loop);
    this.draw();
  }

  foldAll() {
    if (this.folded.size) this.folded.clear();
    else this.folded = new Set(this.loops.keys());
    this.draw();
    this.fit();
  }

  choose(blocks) {
    this.chosen = new Set(blocks);
    this.mark();
    const first = this.places.get(blocks[0]);
    if (!first) return;
    const box = this.pane.getBoundingClientRect(), [left, top, scale] = this.at;
    const x = (first.item.x - left) / scale, y = (first.item.y - top) / scale;
    if (x > 0 && y > 0 && x < box.width && y < box.height - 40) return;
    this.view(first.item.x - scale * box.width / 2, first.item.y - scale * box.height / 3, scale);
  }

  mark() {
    for (const one of this.svg.querySelectorAll(".on")) one.classList.remove("on");
    for (const block of this.chosen) this.places.get(block)?.group.classList.add("on");
  }
}

function short(text, most) {
  return text.length > most ? text.slice(0, Math.max(1, most - 1)) + "…" : text;
}

function curve(points) {
  let path = `M${points[0]}`;
  for (let k = 1; k < points.length; k++) {
    const [a, b] = points[k - 1], [c, d] = points[k], middle = (b + d) / 2;
    path += a === c ? ` L${c} ${d}` : ` C${a} ${middle} ${c} ${middle} ${c} ${d}`;
  }
  return path;
}

class Kernel {
  constructor(section) {
    this.section = section;
    this.rows = new Map();
    for (const row of section.querySelectorAll("tr[data-i]")) {
      for (const one of instructions(row)) {
        if (!this.rows.has(one)) this.rows.set(one, []);
        this.rows.get(one).push(row);
      }
    }
    const data = section.querySelector("script[type='application/json']");
    const pane = section.querySelector(".graph");
    if (data && pane) {
      this.graph = new Graph(pane, JSON.parse(data.textContent), (blocks) => this.blocks(blocks));
    }
    section.addEventListener("click", (event) => this.click(event));
    section.addEventListener("mouseover", (event) => {
      const row = event.target.closest("tr[data-i]");
      if (row !== this.under) this.light("near", row ? this.linked(instructions(row), row) : []);
      this.under = row;
    });
  }

  click(event) {
    const button = event.target.closest("button[data-do]");
    if (button && this.graph) {
      const box = this.graph.pane.getBoundingClientRect();
      const act = {
        in: () => this.graph.zoom(1 / 1.3, box.width / 2, box.height / 3),
        out: () => this.graph.zoom(1.3, box.width / 2, box.height / 3),
        fit: () => this.graph.fit(),
        fold: () => this.graph.foldAll(),
        calm: () => this.graph.pane.classList.toggle("calm"),
      };
      return act[button.dataset.do]();
    }
    const bar = event.target.closest("[data-line]");
    const row = event.target.closest("tr[data-i]") || bar && this.section.querySelector(
      `.own tr[data-l="${CSS.escape(bar.dataset.line)}"]`);
    if (row) this.show(instructions(row), row);
  }

  blocks(blocks) {
    const {blocks: boxes} = this.graph;
    this.show(blocks.flatMap((block) => range(boxes.get(block).start, boxes.get(block).end)));
  }

  // The rows with one of these instructions: of the column of a row that was chosen, that alone.
  linked(found, chosen) {
    const rows = new Set(found.flatMap((one) => this.rows.get(one) || []));
    if (!chosen) return [...rows];
    const column = chosen.closest(".pane");
    return [chosen, ...[...rows].filter((row) => row.closest(".pane") !== column)];
  }

  light(kind, rows) {
    for (const one of this[kind] || []) one.classList.remove(kind);
    this[kind] = [...rows];
    for (const one of this[kind]) one.classList.add(kind);
  }

  show(found, chosen) {
    const rows = this.linked(found, chosen), first = new Map();
    for (const row of rows) {
      const column = row.closest(".pane"), other = first.get(column);
      if (!other || row.rowIndex < other.rowIndex) first.set(column, row);
    }
    this.light("on", rows);
    this.light("at", first.values());
    first.forEach(reveal);
    if (!this.graph) return;
    const all = new Set(found), boxes = [...this.graph.blocks.values()];
    this.graph.choose(boxes.filter((one) => range(one.start, one.end).some((k) => all.has(k)))
      .map((one) => one.id));
  }
}

function range(start, end) {
  return Array.from({length: end - start}, (_, k) => start + k);
}

function instructions(row) {
  return (row.dataset.i || "").split(", ").filter(Boolean).flatMap((part) => {
    const [first, last] = part.split("-").map(Number);
    return range(first, (last ?? first) + 1);
  });
}

function reveal(row) {
  // only the pane scrolls, not the page
  const pane = row.closest(".code"), top = row.offsetTop;
  if (top < pane.scrollTop || top > pane.scrollTop + pane.clientHeight - 30) {
    pane.scrollTop = top - pane.clientHeight / 3;
  }
}

for (const section of document.querySelectorAll("section.kernel")) section.page = new Kernel(section);
addEventListener("beforeprint", () => {
  for (const one of document.querySelectorAll("details")) one.open = true;
});
