/* SPDX-License-Identifier: MIT */
"use strict";
// The picture: tiles of tiles.py, drawn for what is in view. Tiles lie in the page or, when there are many, in files
// beside it, which are scripts: a page that was opened from a disk may read no others.
const about = JSON.parse(document.getElementById("about").textContent);
const canvas = document.getElementById("picture"), told = document.getElementById("told");
const LABELS = 190, AXIS = 22;
const whole = { t0: 0, t1: 1, r0: 0, r1: Math.max(1, about.rows) };
let view = { ...whole };
const tiles = new Map(), waiting = new Map(), MOST_TILES = 96;

async function unpack(text, group) {
	const bytes = Uint8Array.from(atob(text), c => c.charCodeAt(0));
	const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
	const data = new Uint8Array(await new Response(stream).arrayBuffer());
	// As many bytes as cells stand at the end; a number's last byte is below 128.
	const rows = [], columns = [];
	let at = 0, key = 0, end = data.length;
	while (at < end) {
		let delta = 0, scale = 1, byte;
		do { byte = data[at++]; delta += (byte & 127) * scale; scale *= 128; } while (byte & 128);
		key += delta;
		rows.push(Math.floor(key / about.columns)); columns.push(key % about.columns);
		end--;
	}
	return { rows: Uint32Array.from(rows), columns: Uint16Array.from(columns), values: data.subarray(end), group };
}

// Of the files that were read last, their tiles' texts by key.
const files = new Map(), MOST_FILES = 12;

// Called by files of tiles, for each of theirs.
window.kept = (file, key, text) => {
	if (!files.has(file)) files.set(file, new Map());
	files.get(file).set(key, text);
	while (files.size > MOST_FILES) files.delete(files.keys().next().value);
};

async function tile(key, text) {
	const [level] = key.split("-").map(Number);
	const made = text ? await unpack(text, about.levels[level].group) : null;
	tiles.set(key, made);
	while (tiles.size > MOST_TILES) tiles.delete(tiles.keys().next().value);
	const done = waiting.get(key);
	waiting.delete(key);
	if (done) done();
}

const reading = new Set();

function read(file) {
	if (reading.has(file)) return;
	reading.add(file);
	const script = document.createElement("script");
	script.src = `tiles/${file}.js`;
	script.onload = () => {
		script.remove();
		reading.delete(file);
		for (const [key, text] of files.get(file)) if (waiting.has(key)) tile(key, text);
	};
	script.onerror = () => { told.textContent = `The file tiles/${file}.js is missing: move the folder as a whole.`; };
	document.head.append(script);
}

function need(level, number) {
	const key = `${level}-${number}`;
	if (tiles.has(key)) {
		const one = tiles.get(key);
		tiles.delete(key); tiles.set(key, one); // the latest
		return one;
	}
	if (waiting.has(key)) return undefined;
	waiting.set(key, draw);
	const inside = document.getElementById(`tile-${key}`);
	if (inside) tile(key, inside.textContent);
	else if (about.levels[level].files.includes(number)) {
		const file = `${level}-${Math.floor(number / about.per_file)}`;
		if (files.has(file)) tile(key, files.get(file).get(key));
		else read(file);
	} else { tiles.set(key, null); waiting.delete(key); return null; }
	return undefined;
}

const area = () => ({ w: Math.max(1, canvas.clientWidth - LABELS), h: Math.max(1, canvas.clientHeight - AXIS) });

function levelOf(width) {
	const wanted = Math.log2(width / (about.columns * (view.t1 - view.t0)));
	return Math.max(0, Math.min(about.levels.length - 1, Math.ceil(wanted)));
}

let due = false;
function draw() { if (!due) { due = true; requestAnimationFrame(() => { due = false; paint(); }); } }

function paint() {
	const ratio = window.devicePixelRatio || 1, { w, h } = area();
	canvas.width = canvas.clientWidth * ratio; canvas.height = canvas.clientHeight * ratio;
	const pen = canvas.getContext("2d");
	pen.scale(ratio, ratio);
	const dark = matchMedia("(prefers-color-scheme: dark)").matches;
	const W = Math.round(w), H = Math.round(h), shade = new Uint8Array(W * H), writes = new Uint8Array(W * H);
	const level = levelOf(w), count = 2 ** level;
	const first = Math.max(0, Math.floor(view.t0 * count)), last = Math.min(count - 1, Math.floor(view.t1 * count));
	let ready = true;
	for (let number = first; number <= last; number++) {
		let from = level, one = need(from, number);
		// Until it is there, what a coarser level has.
		while (one === undefined && from > 0) { ready = false; from--; one = tiles.get(`${from}-${number >> (level - from)}`); }
		if (one) put(one, from, number >> (level - from), W, H, shade, writes);
	}
	const image = pen.createImageData(W, H);
	for (let i = 0; i < shade.length; i++) {
		if (!shade[i]) continue;
		const a = 90 + 165 * (shade[i] - 1) / 127;
		const [r, g, b] = writes[i] ? (dark ? [255, 110, 90] : [200, 50, 30]) : (dark ? [110, 170, 255] : [36, 99, 180]);
		image.data[4 * i] = r; image.data[4 * i + 1] = g; image.data[4 * i + 2] = b; image.data[4 * i + 3] = a;
	}
	const layer = new OffscreenCanvas(W, H);
	layer.getContext("2d").putImageData(image, 0, 0);
	pen.drawImage(layer, LABELS, 0, w, h);
	labels(pen, w, h, dark);
	canvas.dataset.level = level;
	canvas.dataset.ready = ready && !waiting.size;
}

function put(one, level, number, W, H, shade, writes) {
	const columns = about.columns * 2 ** level, scale = 2 ** one.group;
	const perTime = W / (view.t1 - view.t0) / columns, perRow = H / (view.r1 - view.r0);
	const base = number * about.columns - view.t0 * columns;
	for (let i = 0; i < one.rows.length; i++) {
		const y = (one.rows[i] * scale - view.r0) * perRow, x = (base + one.columns[i]) * perTime;
		if (y >= H || x >= W || y + scale * perRow < 0 || x + perTime < 0) continue;
		const x0 = Math.max(0, Math.floor(x)), x1 = Math.min(W, Math.max(x0 + 1, Math.floor(x + perTime)));
		const y0 = Math.max(0, Math.floor(y)), y1 = Math.min(H, Math.max(y0 + 1, Math.floor(y + scale * perRow)));
		const value = (one.values[i] & 127) + 1, write = one.values[i] >> 7;
		for (let v = y0; v < y1; v++) for (let u = x0; u < x1; u++) {
			const at = v * W + u;
			if (value > shade[at]) shade[at] = value;
			if (write) writes[at] = 1;
		}
	}
}

function labels(pen, w, h, dark) {
	const ink = dark ? "#e8e8e8" : "#1a1a1a", line = dark ? "#444" : "#ccc";
	pen.font = "12px system-ui, sans-serif"; pen.textBaseline = "middle";
	let free = -Infinity;
	for (const [first, rows, name] of about.regions) {
		const top = (first - view.r0) / (view.r1 - view.r0) * h, bottom = (first + rows - view.r0) / (view.r1 - view.r0) * h;
		if (bottom < 0 || top > h) continue;
		pen.fillStyle = line;
		pen.fillRect(0, top, LABELS + w, 0.5);
		const middle = (Math.max(top, 0) + Math.min(bottom, h)) / 2;
		if (middle - free < 13) continue; // no room
		free = middle;
		pen.fillStyle = ink;
		pen.fillText(name, 4, middle, LABELS - 8);
	}
	pen.fillStyle = ink; pen.textBaseline = "top";
	const marks = w < 400 ? 2 : 4; // on a telephone more of them overlap
	for (let i = 0; i <= marks; i++) {
		pen.textAlign = i === 0 ? "left" : i === marks ? "right" : "center";
		pen.fillText(time(view.t0 + (view.t1 - view.t0) * i / marks), LABELS + w * i / marks, h + 5);
	}
	pen.textAlign = "left";
}

function time(part) {
	const ns = part * about.span_ns, width = (view.t1 - view.t0) * about.span_ns;
	const [unit, name] = about.span_ns >= 1e9 ? [1e9, "s"] : about.span_ns >= 1e6 ? [1e6, "ms"] : [1e3, "µs"];
	const digits = Math.max(0, Math.min(9, 2 - Math.floor(Math.log10(width / unit))));
	return `${(ns / unit).toFixed(digits)} ${name}`;
}

function clamp() {
	const least = 8 / (about.columns * 2 ** (about.levels.length - 1));
	for (const [a, b, low, high, small] of [["t0", "t1", 0, 1, least], ["r0", "r1", 0, whole.r1, Math.min(8, whole.r1)]]) {
		const size = Math.min(high - low, Math.max(small, view[b] - view[a]));
		const middle = (view[a] + view[b]) / 2;
		view[a] = Math.min(Math.max(low, middle - size / 2), high - size);
		view[b] = view[a] + size;
	}
	draw();
}

function zoom(factor, x, y, inTime, inRows) {
	if (inTime) { const at = view.t0 + x * (view.t1 - view.t0); view.t0 = at + (view.t0 - at) * factor; view.t1 = at + (view.t1 - at) * factor; }
	if (inRows) { const at = view.r0 + y * (view.r1 - view.r0); view.r0 = at + (view.r0 - at) * factor; view.r1 = at + (view.r1 - at) * factor; }
	clamp();
}

function move(dx, dy) {
	const t = (view.t1 - view.t0) * dx, r = (view.r1 - view.r0) * dy;
	view.t0 += t; view.t1 += t; view.r0 += r; view.r1 += r;
	clamp();
}

function place(event) {
	const box = canvas.getBoundingClientRect(), { w, h } = area();
	return [(event.clientX - box.left - LABELS) / w, (event.clientY - box.top) / h];
}

canvas.addEventListener("wheel", event => {
	event.preventDefault();
	const [x, y] = place(event), delta = event.deltaY || event.deltaX;
	zoom(delta > 0 ? 1.25 : 0.8, Math.max(0, x), y, !event.shiftKey, event.shiftKey);
}, { passive: false });
let held = null;
canvas.addEventListener("pointerdown", event => { held = place(event); canvas.setPointerCapture(event.pointerId); });
canvas.addEventListener("pointerup", () => { held = null; });
canvas.addEventListener("pointermove", event => {
	const [x, y] = place(event);
	if (held) { move(held[0] - x, held[1] - y); held = [x, y]; }
	tell(x, y);
});
canvas.addEventListener("keydown", event => {
	const step = { ArrowLeft: [-0.2, 0], ArrowRight: [0.2, 0], ArrowUp: [0, -0.2], ArrowDown: [0, 0.2] }[event.key];
	if (step) move(...step);
	else if (event.key === "+" || event.key === "=") zoom(0.5, 0.5, 0.5, !event.shiftKey || event.key === "+", false);
	else if (event.key === "-") zoom(2, 0.5, 0.5, true, false);
	else if (event.key === "0") { view = { ...whole }; draw(); }
	else return;
	event.preventDefault();
});
document.getElementById("all").onclick = () => { view = { ...whole }; draw(); };
document.getElementById("in").onclick = () => zoom(0.5, 0.5, 0.5, true, true);
document.getElementById("out").onclick = () => zoom(2, 0.5, 0.5, true, true);

function tell(x, y) {
	if (x < 0 || x > 1 || y < 0 || y > 1) { told.textContent = ""; return; }
	const row = Math.floor(view.r0 + y * (view.r1 - view.r0));
	const region = about.regions.find(([first, rows]) => row >= first && row < first + rows);
	told.textContent = region ? `${time(view.t0 + x * (view.t1 - view.t0))} · ${region[2]}, page ${address(row)}` : "";
}

// Pages beside each other are told as runs: first row, first page.
function address(row) {
	let low = 0, high = about.runs.length - 1;
	while (low < high) { const middle = (low + high + 1) >> 1; if (about.runs[middle][0] <= row) low = middle; else high = middle - 1; }
	const [first, page] = about.runs[low];
	return "0x" + (BigInt(page) + BigInt(row - first) << 12n).toString(16);
}

addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
draw();
