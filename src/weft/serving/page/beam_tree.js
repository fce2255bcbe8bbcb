/**
 * The tree of a beam search: every hypothesis that was kept, and on demand those that were dropped.
 *
 * Steps run from left to right. The first child of a node stands in its row, so that the best hypothesis is one
 * straight line at the top. A node is {id, parent, step, piece, log_prob, state}, as in /weft/explain.
 */

import { make, makeSvg } from "./elements.js";
import { label, number, put, text } from "./texts.js";

const ROW = 30;
const PADDING = 9; // left and right of a piece
const GAP = 26; // between two columns
const MARGIN = 6;
const STATES = ["best", "finished", "kept", "dropped"];

export class BeamTree {
  #nodes;
  #children;
  #folded = new Set();
  #showsDropped = false;
  #scroller = make("div", { className: "tree" });
  #readout = make("p", { className: "hint told", ariaLive: "polite" });
  #focused = null;

  constructor(nodes) {
    this.#nodes = new Map(nodes.map((node) => [node.id, node]));
    this.#children = Map.groupBy(nodes, (node) => node.parent);
    for (const siblings of this.#children.values()) siblings.sort(bestFirst);
    this.#draw();
  }

  /** What shows it, from top to bottom. */
  get elements() {
    return [this.#controls(), this.#readout, this.#scroller];
  }

  #controls() {
    const box = make("input", { type: "checkbox" });
    box.addEventListener("change", () => {
      this.#showsDropped = box.checked;
      this.#draw();
    });
    const words = put(make("span"), "beam_dropped");
    const legend = STATES.map((state) => put(make("span", { className: `legend ${state}` }), `state_${state}`));
    return make(
      "p",
      { className: "controls" },
      make("label", {}, box, words),
      make("span", { className: "legends" }, ...legend),
    );
  }

  #draw() {
    const placed = this.#place();
    const lefts = columnsOf(placed);
    const right = Math.max(...placed.map((node) => lefts[node.column] + node.width + (node.hidden ? 60 : 0)));
    const rows = 1 + Math.max(...placed.map((node) => node.row));
    const svg = makeSvg("svg", { role: "tree", width: right + MARGIN, height: rows * ROW + MARGIN });
    label(svg, "beam_tree");
    const edges = makeSvg("g", { "aria-hidden": "true" });
    svg.append(edges);
    const byId = new Map(placed.map((node) => [node.id, node]));
    if (!byId.has(this.#focused)) this.#focused = placed[0].id;
    for (const node of [...placed].sort(bestLast)) {
      const parent = byId.get(node.parent);
      if (parent) edges.append(edgeOf(parent, node, lefts));
    }
    svg.append(...placed.map((node) => this.#drawNode(node, lefts[node.column])));
    svg.addEventListener("keydown", (event) => this.#walk(event, placed));
    this.#scroller.replaceChildren(svg);
  }

  /** The visible nodes from top to bottom, each with its column, row and width, and how many it hides. */
  #place() {
    const placed = [];
    let rows = 0;
    const visit = (node, column, row) => {
      const children = this.#visibleChildren(node.id);
      const isFolded = this.#folded.has(node.id);
      const hidden = isFolded ? this.#below(node.id) : 0;
      placed.push({
        ...node,
        column,
        row,
        width: widthOf(shown(node)) + 2 * PADDING,
        hidden,
        isParent: children.length > 0,
      });
      if (isFolded) return;
      children.forEach((child, index) => visit(child, column + 1, index ? rows++ : row));
    };
    for (const root of this.#visibleChildren(null)) visit(root, 0, rows++);
    return placed;
  }

  #visibleChildren(id) {
    return (this.#children.get(id) ?? []).filter((node) => this.#showsDropped || node.state !== "dropped");
  }

  #below(id) {
    const children = this.#visibleChildren(id);
    return children.length + children.reduce((total, child) => total + this.#below(child.id), 0);
  }

  #drawNode(node, left) {
    const group = makeSvg("g", {
      role: "treeitem",
      class: `node ${node.state}`,
      tabindex: node.id === this.#focused ? 0 : -1,
    });
    group.dataset.id = node.id;
    group.setAttribute("aria-level", node.column + 1);
    if (node.isParent) group.setAttribute("aria-expanded", !node.hidden);
    group.setAttribute("aria-label", this.#described(node));
    const top = node.row * ROW + MARGIN;
    group.append(
      makeSvg("rect", { x: left, y: top, width: node.width, height: ROW - 8, rx: 5 }),
      makeSvg("text", { x: left + PADDING, y: top + 15.5 }, shown(node)),
    );
    if (node.hidden) {
      const more = text("beam_folded", { count: number(node.hidden) });
      group.append(makeSvg("text", { class: "more", x: left + node.width + 6, y: top + 15.5 }, more));
    }
    const tell = () => (this.#readout.textContent = this.#described(node));
    group.addEventListener("pointerenter", tell);
    group.addEventListener("focus", tell);
    group.addEventListener("click", () => {
      this.#focused = node.id;
      this.#fold(node);
    });
    return group;
  }

  #described(node) {
    const state = text(`state_${node.state}`);
    return text("beam_node", { text: this.#textTo(node), log_prob: number(node.log_prob, DIGITS), state });
  }

  /** The text of the hypothesis from its beginning to this node. */
  #textTo(node) {
    const pieces = [];
    for (let at = node; at; at = this.#nodes.get(at.parent)) pieces.unshift(at.piece);
    return pieces
      .filter((piece) => !MARKS.has(piece))
      .join("")
      .replaceAll("▁", " ")
      .trim();
  }

  #fold(node) {
    if (!node.isParent) return;
    if (!this.#folded.delete(node.id)) this.#folded.add(node.id);
    this.#draw();
    this.#scroller.querySelector(`[data-id="${node.id}"]`).focus();
  }

  #walk(event, placed) {
    const place = placed.findIndex((node) => node.id === Number(event.target.dataset.id));
    const node = placed[place];
    const go = (to) => to && this.#focus(to);
    const steps = {
      ArrowDown: () => go(placed[place + 1]),
      ArrowUp: () => go(placed[place - 1]),
      ArrowRight: () => (node.hidden ? this.#fold(node) : go(placed.find((other) => other.parent === node.id))),
      ArrowLeft: () => go(placed.find((other) => other.id === node.parent)),
      Home: () => go(placed[0]),
      End: () => go(placed.at(-1)),
      Enter: () => this.#fold(node),
      " ": () => this.#fold(node),
    };
    if (!(event.key in steps) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    steps[event.key]();
  }

  #focus(node) {
    this.#scroller.querySelector('[tabindex="0"]').setAttribute("tabindex", -1);
    this.#focused = node.id;
    const element = this.#scroller.querySelector(`[data-id="${node.id}"]`);
    element.setAttribute("tabindex", 0);
    element.focus();
    element.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
}

const MARKS = new Set(["<s>", "</s>"]);
const DIGITS = { minimumFractionDigits: 2, maximumFractionDigits: 2 };

const bestFirst = (one, other) => (other.state === "best") - (one.state === "best") || other.log_prob - one.log_prob;

/** The order of drawing: what counts more lies above. */
const bestLast = (one, other) => STATES.indexOf(other.state) - STATES.indexOf(one.state);

/** What is written for a node: its piece, with names for those that are no text. */
function shown(node) {
  if (node.piece === "</s>") return text("beam_end");
  return node.piece === "<s>" || node.piece === "" ? "●" : node.piece.replaceAll("▁", " ").trim() || "␣";
}

/** Where each column begins. */
function columnsOf(placed) {
  const widths = [];
  for (const node of placed) widths[node.column] = Math.max(widths[node.column] ?? 0, node.width);
  const lefts = [MARGIN];
  for (const width of widths) lefts.push(lefts.at(-1) + width + GAP);
  return lefts;
}

function edgeOf(parent, node, lefts) {
  const from = { x: lefts[parent.column] + parent.width, y: parent.row * ROW + MARGIN + 11 };
  const to = { x: lefts[node.column], y: node.row * ROW + MARGIN + 11 };
  const bend = to.x - GAP / 2;
  const d = `M${from.x} ${from.y}H${to.x - GAP}C${bend} ${from.y} ${bend} ${to.y} ${to.x} ${to.y}`;
  return makeSvg("path", { class: `link ${node.state}`, d });
}

const brush = document.createElement("canvas").getContext("2d");

function widthOf(piece) {
  brush.font = `13px ${getComputedStyle(document.body).fontFamily}`;
  return Math.ceil(brush.measureText(piece).width);
}
