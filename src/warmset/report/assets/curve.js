// Draws the hit-rate curve of the report's own data. Nothing is loaded from anywhere.
(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("warmset-data").textContent);
  const svg = document.getElementById("chart");
  const readout = document.getElementById("readout");
  const W = 1000, H = 440, LEFT = 58, RIGHT = 20, TOP = 26, BOTTOM = 46;
  const perBlock = data.bytes_per_block;
  const GIB = 2 ** 30;
  const line = data.lru_curve;
  const points = data.points;
  const all = line.concat(points).map((p) => p.capacity_blocks);
  const whole = [Math.max(1, Math.min(...all)), Math.max(2, ...all)];
  const state = { log: true, bytes: perBlock !== null, view: whole.slice(), drag: null };

  const make = (name, attributes, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const scale = (v) => (state.log ? Math.log10(Math.max(v, 1e-9)) : v);
  const unscale = (v) => (state.log ? 10 ** v : v);
  const x = (blocks) => {
    const [a, b] = state.view.map(scale);
    return LEFT + ((scale(blocks) - a) / (b - a)) * (W - LEFT - RIGHT);
  };
  const blocksAt = (px) => {
    const [a, b] = state.view.map(scale);
    return unscale(a + ((px - LEFT) / (W - LEFT - RIGHT)) * (b - a));
  };
  let top = 1;
  const y = (ratio) => H - BOTTOM - (ratio / top) * (H - TOP - BOTTOM);
  const ratioAt = (blocks) => {
    let low = 0, high = line.length - 1;
    if (blocks <= line[0].capacity_blocks) return line[0].hit_ratio;
    if (blocks >= line[high].capacity_blocks) return line[high].hit_ratio;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (line[middle].capacity_blocks <= blocks) low = middle; else high = middle;
    }
    const a = line[low], b = line[high];
    const share = (blocks - a.capacity_blocks) / (b.capacity_blocks - a.capacity_blocks);
    return a.hit_ratio + share * (b.hit_ratio - a.hit_ratio);
  };
  const percent = (r) => (100 * r).toFixed(1) + " %";
  const short = (v) => {
    for (const [factor, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) if (v >= factor) return +(v / factor).toPrecision(3) + unit;
    return String(+v.toPrecision(3));
  };
  const size = (bytes) => {
    for (const [factor, unit] of [[2 ** 40, "TiB"], [GIB, "GiB"], [2 ** 20, "MiB"]]) if (bytes >= factor) return +(bytes / factor).toPrecision(3) + " " + unit;
    return +(bytes / 1024).toPrecision(3) + " KiB";
  };
  const capacity = (blocks) => Math.round(blocks).toLocaleString("en") + " blocks" + (perBlock === null ? "" : " (" + size(blocks * perBlock) + ")");

  const ticks = () => {
    const unit = state.bytes ? GIB / perBlock : 1;
    const [a, b] = state.view.map((v) => v / unit);
    const found = [];
    if (state.log) {
      const decades = Math.log10(b / a);
      const steps = decades > 3 ? [1] : decades > 1.2 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9];
      for (let power = Math.floor(Math.log10(a)); power <= Math.log10(b); power++) {
        for (const step of steps) {
          const value = step * 10 ** power;
          if (value >= a * 0.999 && value <= b * 1.001) found.push(value);
        }
      }
    } else {
      const raw = (b - a) / 8, power = 10 ** Math.floor(Math.log10(raw));
      const step = [1, 2, 5, 10].map((m) => m * power).find((m) => m >= raw);
      for (let value = Math.ceil(a / step) * step; value <= b; value += step) found.push(value);
    }
    return found.map((value) => [value * unit, short(value)]);
  };

  const draw = () => {
    const [a, b] = state.view;
    const seen = line.concat(points).filter((p) => p.capacity_blocks >= a && p.capacity_blocks <= b).map((p) => p.hit_ratio);
    top = Math.min(1, Math.max(0.05, Math.ceil(Math.max(ratioAt(b), data.ceiling.hit_ratio, ...seen) * 1.06 * 20) / 20));
    svg.replaceChildren();
    const clip = make("clipPath", { id: "inside" });
    clip.append(make("rect", { x: LEFT - 6, y: TOP - 8, width: W - LEFT - RIGHT + 12, height: H - TOP - BOTTOM + 16 }));
    svg.append(clip);
    const rows = top > 0.5 ? 0.1 : top > 0.2 ? 0.05 : 0.01;
    for (let value = 0; value <= top + 1e-9; value += rows) {
      svg.append(make("line", { class: "grid", x1: LEFT, x2: W - RIGHT, y1: y(value), y2: y(value) }));
      svg.append(make("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, Math.round(100 * value) + " %"));
    }
    let last = -100;
    for (const [blocks, label] of ticks()) {
      const at = x(blocks);
      svg.append(make("line", { class: "grid", x1: at, x2: at, y1: TOP, y2: H - BOTTOM }));
      if (at - last < 36) continue;
      last = at;
      svg.append(make("text", { x: at, y: H - BOTTOM + 18, "text-anchor": "middle" }, label));
    }
    svg.append(make("text", { class: "title", x: (LEFT + W - RIGHT) / 2, y: H - 6, "text-anchor": "middle" }, state.bytes ? "capacity, GiB" : "capacity, blocks"));
    svg.append(make("text", { class: "title", x: 4, y: 14 }, "hit rate, share of " + (data.denominator === "block_tokens" ? "tokens in listed blocks" : "block accesses")));
    const legend = make("text", { class: "title", x: W - RIGHT, y: 14, "text-anchor": "end" });
    const asked = data.policy === "lru" ? "capacities of the table" : { arc: "ARC", fifo: "FIFO", lfu: "LFU", optimal: "clairvoyant" }[data.policy];
    for (const [css, mark, name] of [["line-mark", "—", data.device_capacity_blocks === null ? "LRU" : "LRU, device pool and tier"], ["point-mark", "○", asked]]) {
      legend.append(make("tspan", { class: css, dx: 14 }, mark), make("tspan", { dx: 4 }, name));
    }
    svg.append(legend);
    const inside = make("g", { "clip-path": "url(#inside)" });
    svg.append(inside);
    const ceiling = y(data.ceiling.hit_ratio);
    inside.append(make("line", { class: "ceiling", x1: LEFT, x2: W - RIGHT, y1: ceiling, y2: ceiling }));
    svg.append(make("text", { class: "ceiling-text", x: LEFT + 8, y: ceiling - 6 }, "ceiling " + percent(data.ceiling.hit_ratio)));
    for (const [name, mark, row] of [["knee", data.knee, 0], ["within " + data.within.points + (data.within.points === 1 ? " point" : " points"), data.within, 1]]) {
      if (mark.capacity_blocks < a || mark.capacity_blocks > b) continue;
      const at = x(mark.capacity_blocks);
      inside.append(make("line", { class: "mark", x1: at, x2: at, y1: TOP, y2: H - BOTTOM }));
      const left = at > W - 180;
      svg.append(make("text", { x: at + (left ? -6 : 6), y: H - BOTTOM - 8 - 16 * row, "text-anchor": left ? "end" : "start" }, name));
    }
    const path = line.map((p) => x(p.capacity_blocks).toFixed(2) + "," + y(p.hit_ratio).toFixed(2)).join(" ");
    inside.append(make("polyline", { class: "line", points: path }));
    for (const p of points) {
      inside.append(make("circle", { class: "point", cx: x(p.capacity_blocks), cy: y(p.hit_ratio), r: 4.5, "data-capacity-blocks": p.capacity_blocks, "data-hit-ratio": p.hit_ratio, "data-hit-tokens": p.hit_tokens }));
    }
    if (state.drag && Math.abs(state.drag[1] - state.drag[0]) > 4) {
      inside.append(make("rect", { class: "zoom", x: Math.min(...state.drag), y: TOP, width: Math.abs(state.drag[1] - state.drag[0]), height: H - TOP - BOTTOM }));
    }
    for (const id of ["log", "linear"]) document.getElementById(id).setAttribute("aria-pressed", String(state.log === (id === "log")));
    const unit = document.getElementById("unit");
    unit.hidden = perBlock === null;
    unit.textContent = state.bytes ? "show blocks" : "show GiB";
    svg.dataset.ready = "1";
  };

  const pixel = (event) => {
    const box = svg.getBoundingClientRect();
    return Math.min(W - RIGHT, Math.max(LEFT, ((event.clientX - box.left) / box.width) * W));
  };
  const hover = (px) => {
    const blocks = blocksAt(px);
    const near = points.map((p) => [Math.abs(x(p.capacity_blocks) - px), p]).sort((m, n) => m[0] - n[0])[0];
    for (const old of svg.querySelectorAll(".hover, .hover-dot")) old.remove();
    const on = near && near[0] < 7 ? near[1] : null;
    const at = on ? x(on.capacity_blocks) : px;
    const ratio = on ? on.hit_ratio : ratioAt(blocks);
    svg.append(make("line", { class: "hover", x1: at, x2: at, y1: TOP, y2: H - BOTTOM }));
    svg.append(make("circle", { class: "hover-dot", cx: at, cy: y(ratio), r: 4 }));
    let text = capacity(on ? on.capacity_blocks : blocks) + " → " + percent(ratio) + (on ? "" : " (LRU)");
    if (on && on.host_hit_tokens !== null) text += ", of it host " + percent(data.total_tokens ? on.host_hit_tokens / data.total_tokens : 0);
    if (on && on.ttft_mean_seconds !== null) text += ", TTFT about " + on.ttft_mean_seconds.toPrecision(3) + " s";
    readout.textContent = text;
  };
  const zoom = (a, b) => {
    const low = Math.max(whole[0], Math.min(a, b)), high = Math.min(whole[1], Math.max(a, b));
    if (high / low > 1.0001 && high - low >= 1) state.view = [low, high];
    draw();
  };
  svg.addEventListener("pointerdown", (event) => { svg.setPointerCapture(event.pointerId); const px = pixel(event); state.drag = [px, px]; });
  svg.addEventListener("pointermove", (event) => {
    if (state.drag) { state.drag[1] = pixel(event); draw(); }
    hover(pixel(event));
  });
  svg.addEventListener("pointerup", () => {
    const drag = state.drag;
    state.drag = null;
    if (drag && Math.abs(drag[1] - drag[0]) > 8) zoom(blocksAt(drag[0]), blocksAt(drag[1])); else draw();
  });
  svg.addEventListener("wheel", (event) => {
    event.preventDefault();
    const middle = scale(blocksAt(pixel(event))), factor = event.deltaY > 0 ? 1.25 : 0.8;
    const [a, b] = state.view.map(scale);
    zoom(unscale(middle + (a - middle) * factor), unscale(middle + (b - middle) * factor));
  }, { passive: false });
  svg.addEventListener("dblclick", () => { state.view = whole.slice(); draw(); });
  document.getElementById("reset").addEventListener("click", () => { state.view = whole.slice(); draw(); });
  document.getElementById("log").addEventListener("click", () => { state.log = true; draw(); });
  document.getElementById("linear").addEventListener("click", () => { state.log = false; draw(); });
  document.getElementById("unit").addEventListener("click", () => { state.bytes = !state.bytes; draw(); });
  draw();
})();
