/* Draws a trace: each token is a block, and what spans tokens is drawn across them.

   In: a container, and records as the JSON lines of a trace have them. Out: an object with
   append(records), finish(end), select(index), and what it knows. Nothing is fetched, and all text
   is set as text. Rows that are not visible are not in the document. */
"use strict";

const streamdecTimeline = (container, { options = {}, redacted = false } = {}) => {
  // --- text and bytes as they are shown ---------------------------------------------------------

  const THIN = "\u202f";
  const NAMED = { "\n": "↵", "\r": "␍", "\t": "⇥", "\u007f": "␡" };
  const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f\u205f-\u206f\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ue000-\uf8ff]|[\u{e0000}-\u{e0fff}\u{f0000}-\u{10ffff}]|\p{Cs}|\u00a0|[\u2000-\u200a]/gu;
  const escapeOne = (char) => {
    const code = char.codePointAt(0);
    if (NAMED[char]) return NAMED[char];
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  };
  /** Text with a sign for everything that would not be seen; a lone mark gets a circle. */
  const visible = (text) => {
    const seen = text.replace(UNSEEN, escapeOne);
    return /^\p{M}/u.test(seen) ? "◌" + seen : seen;
  };
  /** Text as a reader has it, but for what would change the page around it. */
  const HARMFUL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|\p{Cs}/gu;
  const prose = (text) => text.replace(HARMFUL, escapeOne);
  const quoted = (text) => `“${visible(text).replaceAll(" ", "·")}”`;
  const bytesOf = (hex) => new Uint8Array((hex.match(/../g) || []).map((two) => parseInt(two, 16)));
  const spaced = (hex) => (hex.match(/../g) || []).join(" ");
  const lenient = new TextDecoder("utf-8", { ignoreBOM: true });
  const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const isWhole = (bytes) => {
    try { strict.decode(bytes); return true; } catch { return false; }
  };
  const first = (text) => (text ? String.fromCodePoint(text.codePointAt(0)) : "");

  /** What a token is, to a reader: its text; bytes that are no character, in hex. */
  const labelOf = (token) => {
    if (token.kind === "unknown") return "no token";
    if (token.data == null) return visible(token.piece ?? token.text ?? "") || "—";
    if (!token.data) return token.piece ? visible(token.piece) : "empty";
    const bytes = bytesOf(token.data);
    if (isWhole(bytes)) return visible(lenient.decode(bytes));
    const shown = [];
    for (let start = 0; start < bytes.length;) {
      const size = sizeOf(bytes[start]), part = bytes.subarray(start, start + size);
      const isCharacter = size && part.length === size && isWhole(part);
      shown.push(isCharacter ? visible(lenient.decode(part)) : hexOf(bytes[start]));
      if (!isCharacter || start + size < bytes.length) shown.push(THIN);
      start += isCharacter ? size : 1;
    }
    return shown.join("").replace(/\u202f$/, "");
  };
  const hexOf = (byte) => byte.toString(16).padStart(2, "0");
  const sizeOf = (byte) => (byte < 0x80 ? 1 : byte < 0xc2 ? 0 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : byte < 0xf5 ? 4 : 0);

  const make = (name, className, parent, text) => {
    const element = document.createElement(name);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    if (parent) parent.append(element);
    return element;
  };
  /** Text into an element; spaces become dots that are not as loud as letters. */
  const put = (element, text) => {
    element.textContent = "";
    text.split(/( )/).forEach((part) => {
      if (part === " ") make("span", "sd-space", element, "·");
      else if (part) element.append(part);
    });
    return element;
  };

  // --- what is known of all tokens ----------------------------------------------------------------

  const tokens = [];
  const labels = [];
  const outEnds = [];      // where in the text each token's output ends
  const characters = [];   // {from, to, text, open, before, after}: those that span tokens
  const jails = [];        // {from, to, stop, open, text}
  const charactersOf = []; // of each token, the characters that it has a part of
  const jailOf = [];
  const chunkSizes = new Map();
  let end = null, verdict = null, parts = [], text = "";
  let openCharacter = null, openJail = null;

  const note = (token) => {
    const index = tokens.length, before = tokens[index - 1];
    tokens.push(token);
    labels.push(labelOf(token));
    charactersOf.push([]);
    jailOf.push(null);
    parts.push(token.text || "");
    outEnds.push((outEnds[index - 1] || 0) + (token.text || "").length);
    chunkSizes.set(token.chunk, (chunkSizes.get(token.chunk) || 0) + 1);
    noteCharacter(token, index, before);
    noteJail(token, index, before);
  };

  const noteCharacter = (token, index, before) => {
    const held = (before && before.held) || "", after = token.held || "";
    const data = token.kind === "skipped" || token.kind === "unknown" ? "" : token.data;
    const given = (token.text || "") + (token.jailed || "");
    if (openCharacter) {
      const grows = data && after.startsWith(held) && after.length > held.length;
      if (!grows && (after !== held || data)) {
        // The character ends here, or before this token if this one begins at a boundary.
        const own = data != null && !redacted && isWhole(bytesOf(data));
        openCharacter.open = false;
        if (own) {
          openCharacter.text = lenient.decode(bytesOf(held));
        } else {
          openCharacter.text = data == null || redacted
            ? first(given) || "□" : first(lenient.decode(bytesOf(held + data)));
          openCharacter.to = index;
          openCharacter.after = [...given].length > 1 || Boolean(after);
          charactersOf[index].push(openCharacter);
        }
        openCharacter = null;
      } else if (data) {
        openCharacter.to = index;
        charactersOf[index].push(openCharacter);
      }
    }
    if (after && !openCharacter) {
      const starts = data != null && after.length < data.length;
      openCharacter = { from: index, to: index, text: "", open: true, before: starts, after: false };
      characters.push(openCharacter);
      charactersOf[index].push(openCharacter);
    }
  };

  const noteJail = (token, index, before) => {
    const stops = token.finish_reason === "stop";
    if (openJail) {
      openJail.to = index;
      jailOf[index] = openJail;
      if (!token.jailed) {
        openJail.open = false;
        openJail.stop = stops && !token.text;
        openJail = null;
      }
    } else if (token.jailed) {
      openJail = { from: index, to: index, stop: false, open: true };
      jails.push(openJail);
      jailOf[index] = openJail;
    }
    if (stops && typeof token.stop_reason === "string" && !jailOf[index]) {
      jailOf[index] = { from: index, to: index, stop: true, open: false };
      jails.push(jailOf[index]);
    } else if (stops && jailOf[index]) {
      jailOf[index].stop = true;
    }
  };

  const isMute = (token) => !token.text && !token.finish_reason;
  const stateOf = (index) => {
    const token = tokens[index];
    if (token.finish_reason) return token.finish_reason === "stop" ? "stop" : "end";
    if (token.text) return token.jailed ? "jailed" : token.held ? "held" : "out";
    if (token.jailed) return "jailed";
    if (token.held) return "held";
    return token.kind === "unknown" ? "unknown" : "mute";
  };

  const stopName = (reason) => {
    if (reason == null) return "the end-of-sequence id";
    if (typeof reason === "string") return `the stop ${quoted(reason)}`;
    if (Array.isArray(reason)) return reason.length ? `the ids ${reason.join(" ")}` : "a stop id";
    return `the stop id ${reason}`;
  };
  const either = (stops) => stops.map(quoted).join(" or ");

  /** Sentences: what happened at a token, and why; [text, index of a token to go to]. */
  const explain = (index) => {
    const token = tokens[index], before = tokens[index - 1] || {}, said = [];
    const jail = jailOf[index], crossing = charactersOf[index];
    const closed = crossing.find((each) => !each.open && each.to === index && each.from < index);
    if (verdict && verdict.equal === false && verdict.token_index === index) {
      said.push([`Here the text first differs from the whole decode: ${visible(verdict.reason)}.`]);
    }
    if (token.kind === "unknown") said.push(["The tokenizer has no token with this id."]);
    if (token.finish_reason === "stop") {
      said.push([`${capital(stopName(token.stop_reason))} is complete with this token: the stream ends here.`]);
      if (jail && jail.from < index) said.push([`Its text had been withheld since token ${jail.from}, and never comes out.`, jail.from]);
      if (token.text) said.push([`${quoted(token.text)} came before it, and comes out.`]);
      return said;
    }
    if (token.finish_reason) said.push([`The stream ends here: ${token.finish_reason}.`]);
    if (token.text) {
      if (before.jailed) said.push([`What was withheld since token ${jail ? jail.from : index - 1} is no stop after all${token.jailed ? " (or only its end may be one)" : ""}: ${quoted(token.text)} comes out.`, jail ? jail.from : index - 1]);
      else if (closed) said.push([`It has the last bytes of ${quoted(closed.text)}, which began at token ${closed.from}: the character is whole, and comes out.`, closed.from]);
      else said.push([`${quoted(token.text)} comes out at once.`]);
    } else if (!token.finish_reason) {
      said.push(["Nothing comes out."]);
    }
    if (token.held) {
      const bytes = bytesOf(token.held), missing = sizeOf(bytes[0]) - bytes.length;
      const own = crossing[crossing.length - 1];
      const exact = options.byte_runs === "exact";
      said.push([exact
        ? `The bytes ${spaced(token.held)} are held: the run of byte tokens is not over.`
        : `The bytes ${spaced(token.held)} are held: they begin a character, and ${missing > 0 ? `${missing} more ${missing === 1 ? "byte is" : "bytes are"}` : "its end is"} missing.`]);
      if (own && !own.open) said.push([`That is decided at token ${Math.max(own.to, index + 1)}.`, Math.max(own.to, index + 1)]);
      else if (own && own.open) said.push([end ? "They never came: the stream ended." : "They have not come yet."]);
    }
    if (token.jailed) {
      const may = token.may_become || [];
      said.push([`${quoted(token.jailed)} is withheld: it may become ${may.length ? `the stop ${either(may)}` : "a stop"}.`]);
      if (jail && !jail.open && jail.to > index) said.push([jail.stop ? `It does, at token ${jail.to}.` : `That is decided at token ${jail.to}.`, jail.to]);
      else if (jail && jail.open && end) said.push(["The stream ended before that was decided, and so it came out at the end."]);
    }
    if (isMute(token) && !token.held && !token.jailed && token.kind !== "unknown") {
      said.push([token.kind === "skipped"
        ? "It is a special token, and special tokens are left out (skip_special_tokens)."
        : "The token has no text at this place."]);
    }
    return said;
  };
  const capital = (sentence) => sentence[0].toUpperCase() + sentence.slice(1);

  // --- the parts on the page ------------------------------------------------------------------------

  container.classList.add("sd");
  const top = make("div", "sd-top", container);
  const bar = make("div", "sd-bar", top);
  const button = (label, title, action) => {
    const element = make("button", "", bar, label);
    element.type = "button";
    element.title = title;
    element.setAttribute("aria-label", title);
    element.addEventListener("click", action);
    return element;
  };
  button("⇤", "First token (Home)", () => select(0));
  button("←", "Token before (left arrow)", () => select(current - 1));
  const place = make("output", "sd-place", bar, "");
  button("→", "Next token (right arrow)", () => select(current + 1));
  button("⇥", "Last token (End)", () => select(tokens.length - 1));
  button("‹ waits", "Token before at which nothing came out ([)", () => wait(-1)).className = "sd-wide";
  button("waits ›", "Next token at which nothing came out (])", () => wait(1)).className = "sd-wide";
  const searching = make("label", "sd-search", bar);
  make("span", "sd-hidden", searching, "Search");
  const search = make("input", "", searching);
  Object.assign(search, { type: "search", placeholder: "Text, id or #index   ( / )", autocomplete: "off", spellcheck: false });
  const found = make("output", "sd-found", searching, "");

  const overview = make("div", "sd-overview", top);
  overview.setAttribute("aria-hidden", "true");
  const canvas = make("canvas", "", overview);
  const seen = make("div", "sd-seen", overview);
  const mark = make("div", "sd-mark", overview);
  const legend = make("ul", "sd-legend", top);
  for (const [name, told] of [["out", "comes out at once"], ["held", "held: bytes of an unfinished character"], ["jailed", "withheld: may become a stop"], ["stop", "stop"], ["mute", "no text"]]) {
    make("span", `sd-key sd-${name}`, make("li", "", legend)).after(told);
  }

  const body = make("div", "sd-body", container);
  const score = make("div", "sd-score", body);
  score.tabIndex = 0;
  score.setAttribute("role", "listbox");
  score.setAttribute("aria-label", "Tokens. Arrow keys step, Home and End go to the first and last.");
  const sheet = make("div", "sd-sheet", score);
  sheet.setAttribute("role", "presentation");
  const panel = make("aside", "sd-panel", body);
  panel.setAttribute("aria-label", "The current token");
  panel.tabIndex = 0;

  // --- layout: rows of tokens, as lines of text -----------------------------------------------------

  const pen = document.createElement("canvas").getContext("2d");
  const widths = new Map();
  let current = -1, rows = [], rowOf = [], xs = [], sizes = [], drawn = new Map(), gutter = 0, sheetWidth = 0;
  const LINE = { ruler: 17, block: 42, character: 25, jail: 25, out: 25, space: 20 };

  const widthOf = (label) => {
    let width = widths.get(label);
    if (width === undefined) {
      pen.font = getComputedStyle(container).getPropertyValue("--sd-measure");
      width = Math.ceil(pen.measureText(label).width);
      widths.set(label, width);
    }
    return width;
  };
  const blockWidth = (index) => {
    const token = tokens[index], id = token.token_id == null ? "" : String(token.token_id);
    const wanted = Math.max(widthOf(labels[index]) + 14, id.length * 6.6 + 12, Math.min(widthOf(visible(token.text || "")) + 14, 170));
    return Math.min(Math.max(wanted, 34, String(index).length * 6.4 + 6), 230, sheetWidth - gutter - 12);
  };
  const lanesOf = (row) => {
    let character = false, jail = false;
    for (let index = row.from; index <= row.to; index += 1) {
      character ||= charactersOf[index].length > 0;
      jail ||= jailOf[index] !== null;
    }
    let y = LINE.ruler + LINE.block;
    row.character = character ? ((y += LINE.character), y - LINE.character) : null;
    row.jail = jail ? ((y += LINE.jail), y - LINE.jail) : null;
    row.out = y;
    row.height = y + LINE.out + LINE.space;
  };
  /** Sets tokens in rows, from a row on: those before stay. */
  const layout = (fromRow = 0) => {
    const start = fromRow < rows.length ? rows[fromRow].from : 0;
    rows.length = Math.min(fromRow, rows.length);
    for (const number of [...drawn.keys()]) if (number >= fromRow) erase(number);
    let row = null, x = 0;
    for (let index = start; index < tokens.length; index += 1) {
      const width = blockWidth(index);
      if (!row || x + width > sheetWidth - 6) {
        row = { from: index, to: index, y: 0 };
        rows.push(row);
        x = gutter;
      }
      row.to = index;
      xs[index] = x;
      sizes[index] = width;
      rowOf[index] = rows.length - 1;
      x += width + 3;
    }
    for (let number = fromRow; number < rows.length; number += 1) {
      lanesOf(rows[number]);
      const before = rows[number - 1];
      rows[number].y = before ? before.y + before.height : 10;
    }
    const last = rows[rows.length - 1];
    sheet.style.height = `${last ? last.y + last.height + 20 : 0}px`;
    draw();
    drawOverview();
  };
  const rowAt = (y) => {
    let low = 0, high = rows.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (rows[middle].y <= y) low = middle; else high = middle - 1;
    }
    return low;
  };

  // --- drawing: the rows that are visible -------------------------------------------------------------

  const at = (element, x, y, width) => {
    Object.assign(element.style, { left: `${x}px`, top: `${y}px`, width: `${width}px` });
    return element;
  };
  const erase = (number) => {
    drawn.get(number).remove();
    drawn.delete(number);
  };
  const draw = () => {
    if (!rows.length) return;
    const from = Math.max(rowAt(score.scrollTop) - 2, 0);
    const to = Math.min(rowAt(score.scrollTop + score.clientHeight) + 2, rows.length - 1);
    for (const number of [...drawn.keys()]) if (number < from || number > to) erase(number);
    for (let number = from; number <= to; number += 1) if (!drawn.has(number)) drawRow(number);
    const firstSeen = rows[rowAt(score.scrollTop)].from, lastSeen = rows[rowAt(score.scrollTop + score.clientHeight)].to;
    Object.assign(seen.style, { left: `${(100 * firstSeen) / tokens.length}%`, width: `${(100 * (lastSeen + 1 - firstSeen)) / tokens.length}%` });
  };
  const drawRow = (number) => {
    const row = rows[number], line = make("div", "sd-row");
    line.setAttribute("role", "presentation");
    Object.assign(line.style, { top: `${row.y}px`, height: `${row.height}px` });
    if (gutter > 20) {
      for (const [y, told] of [[LINE.ruler + 5, "token"], [row.character, "character"], [row.jail, "withheld"], [row.out, "comes out"]]) {
        if (y !== null) at(make("span", "sd-gutter", line, told), 0, y, gutter - 10);
      }
    }
    const done = new Set();
    for (let index = row.from; index <= row.to; index += 1) {
      drawToken(line, row, index);
      for (const each of charactersOf[index]) if (!done.has(each)) { done.add(each); drawCharacter(line, row, each); }
      const jail = jailOf[index];
      if (jail && !done.has(jail)) { done.add(jail); drawJail(line, row, jail); }
    }
    drawn.set(number, line);
    sheet.append(line);
  };
  const drawToken = (line, row, index) => {
    const token = tokens[index], x = xs[index], width = sizes[index], state = stateOf(index);
    const number = at(make("span", "sd-index", line, String(index)), x, 0, width);
    const size = chunkSizes.get(token.chunk);
    if (size > 1) {
      const before = tokens[index - 1], after = tokens[index + 1];
      number.classList.add("sd-chunk");
      number.title = `chunk ${token.chunk}, of ${size} tokens`;
      if (!before || before.chunk !== token.chunk) number.classList.add("sd-chunk-from");
      if (!after || after.chunk !== token.chunk) number.classList.add("sd-chunk-to");
      else number.style.width = `${width + 3}px`;
    }
    const block = at(make("div", `sd-token sd-${state} sd-kind-${token.kind || "text"}`, line), x, LINE.ruler, width);
    block.id = `sd-token-${index}`;
    block.dataset.index = index;
    if (verdict && verdict.equal === false && verdict.token_index === index) block.classList.add("sd-differs");
    block.setAttribute("role", "option");
    block.setAttribute("aria-selected", String(index === current));
    block.setAttribute("aria-label", `token ${index}, ${labels[index]}`);
    if (hits.has(index)) block.classList.add("sd-hit");
    put(make("bdi", "sd-label", block), labels[index]);
    make("span", "sd-id", block, token.token_id == null ? "" : String(token.token_id));
    const out = at(make("span", `sd-outcome sd-${state}`, line), x, row.out, width);
    if (token.text) put(make("bdi", "", out), visible(token.text));
    else if (token.finish_reason) out.textContent = "■";
    else out.classList.add("sd-none");
    if (index === tokens.length - 1 && end && end.text) {
      out.classList.add("sd-last");
      put(out, visible((token.text || "") + end.text));
      out.title = `${visible(end.text)} came at the end`;
    }
  };
  /** The part of a span that is in a row: from where to where, and whether it goes on outside. */
  const partIn = (row, span) => {
    const from = Math.max(span.from, row.from), to = Math.min(span.to, row.to);
    let left = xs[from], right = xs[to] + sizes[to];
    if (from === span.from && span.before) left += sizes[from] / 2;
    if (to === span.to && span.after) right -= sizes[to] / 2;
    return { left, width: Math.max(right - left, 12), before: span.from < row.from, after: span.to > row.to || span.open };
  };
  const drawSpan = (line, row, span, y, className) => {
    const part = partIn(row, span);
    const element = at(make("div", `sd-span ${className}`, line), part.left, y, part.width);
    if (part.before) element.classList.add("sd-from-before");
    if (part.after) element.classList.add("sd-goes-on");
    return element;
  };
  const drawCharacter = (line, row, span) => {
    const element = drawSpan(line, row, span, row.character, "sd-character");
    const count = span.to - span.from + 1;
    put(make("bdi", "sd-big", element), span.open ? (end && end.text ? visible(first(end.text)) : "…") : visible(span.text));
    if (count > 1 && parseFloat(element.style.width) > 80) make("span", "sd-small", element, `${count} tokens`);
    element.title = span.open ? "a character that was not finished" : `${visible(span.text)}, of tokens ${span.from} to ${span.to}`;
  };
  const drawJail = (line, row, span) => {
    const element = drawSpan(line, row, span, row.jail, span.stop ? "sd-jail sd-is-stop" : "sd-jail");
    const last = tokens[span.to];
    const shown = span.stop && typeof last.stop_reason === "string" ? last.stop_reason : longest(span);
    put(make("bdi", "sd-big", element), visible(shown));
    make("span", "sd-small", element, span.stop ? "stop" : span.open ? "undecided" : "no stop");
    element.title = span.stop ? `${visible(shown)} was withheld, and became the stop` : `${visible(shown)} might have become ${either(tokens[span.from].may_become || [])}`;
  };
  const longest = (span) => {
    let most = "";
    for (let index = span.from; index <= span.to; index += 1) {
      const jailed = tokens[index].jailed || "";
      if (jailed.length > most.length) most = jailed;
    }
    return most;
  };

  // --- the overview: one column of pixels for one token or many ---------------------------------------

  const STACK = ["out", "mute", "unknown", "held", "jailed", "end", "stop"];
  const SHARE = { out: 0.4, mute: 0.6, unknown: 0.6, held: 0.85, jailed: 0.85 };
  let overviewPlanned = false;
  const drawOverview = () => {
    if (overviewPlanned) return;
    overviewPlanned = true;
    requestAnimationFrame(() => { overviewPlanned = false; drawOverviewNow(); });
  };
  const drawOverviewNow = () => {
    const width = overview.clientWidth, height = overview.clientHeight, scale = window.devicePixelRatio || 1;
    if (!width || !tokens.length) return;
    canvas.width = width * scale;
    canvas.height = height * scale;
    const brush = canvas.getContext("2d"), style = getComputedStyle(container);
    brush.scale(scale, scale);
    const columns = Math.min(Math.floor(width), tokens.length), step = width / columns;
    const counts = Array.from({ length: columns }, () => ({}));
    for (let index = 0; index < tokens.length; index += 1) {
      const count = counts[Math.floor((index * columns) / tokens.length)], state = stateOf(index);
      count[state] = (count[state] || 0) + 1;
    }
    const single = columns === tokens.length;
    counts.forEach((count, column) => {
      const all = Object.values(count).reduce((sum, each) => sum + each, 0);
      let bottom = height;
      for (const state of STACK) {
        if (!count[state]) continue;
        // One token is a bar of its own height; several share a column. An end is always seen whole.
        const isEnd = state === "stop" || state === "end";
        const size = single || isEnd ? height * (isEnd ? 1 : SHARE[state]) : (height * count[state]) / all;
        brush.fillStyle = style.getPropertyValue(`--sd-${state}`);
        brush.globalAlpha = state === "out" ? 0.45 : 1;
        brush.fillRect(column * step, isEnd ? 0 : bottom - size, Math.max(step - (step > 4 ? 1 : 0), isEnd ? 2 : step), size);
        bottom -= size;
      }
    });
  };

  // --- the current token --------------------------------------------------------------------------------

  const select = (index, { focus = false, scroll = true } = {}) => {
    if (!tokens.length) return;
    const wanted = Math.min(Math.max(index, 0), tokens.length - 1);
    if (wanted !== current) {
      mark_(current, false);
      current = wanted;
    }
    if (scroll) show(current);
    draw();
    mark_(current, true);
    score.setAttribute("aria-activedescendant", `sd-token-${current}`);
    place.textContent = `${current} / ${tokens.length - 1}`;
    mark.style.left = `${(100 * (current + 0.5)) / tokens.length}%`;
    fillPanel();
    if (focus) score.focus({ preventScroll: true });
  };
  const mark_ = (index, on) => {
    const block = document.getElementById(`sd-token-${index}`);
    if (!block) return;
    block.classList.toggle("sd-current", on);
    block.setAttribute("aria-selected", String(on));
  };
  const show = (index) => {
    const row = rows[rowOf[index]], above = score.scrollTop, height = score.clientHeight;
    if (row.y < above + 4) score.scrollTop = row.y - 10;
    else if (row.y + row.height > above + height) {
      const far = row.y > above + 2 * height;
      score.scrollTop = far ? row.y - height / 3 : row.y + row.height - height + 8;
    }
  };
  const wait = (direction) => {
    for (let index = current + direction; tokens[index]; index += direction) {
      if (isMute(tokens[index]) && (tokens[index].held || tokens[index].jailed)) return select(index);
    }
    return undefined;
  };

  const fillPanel = () => {
    const token = tokens[current];
    panel.textContent = "";
    const title = make("h2", "", panel, `Token ${current}`);
    put(make("bdi", `sd-name sd-${stateOf(current)}`, title), labels[current]);
    const why = make("p", "sd-why", panel);
    why.setAttribute("aria-live", "polite");
    for (const [sentence, target] of explain(current)) {
      const span = make("span", "", why, sentence);
      if (target !== undefined && target !== current && tokens[target]) {
        const link = make("button", "sd-link", span, `Go to ${target}`);
        link.type = "button";
        link.addEventListener("click", () => select(target, { focus: true }));
      }
      why.append(" ");
    }
    make("h3", "", panel, "What a reader has now");
    const now = make("p", "sd-now", panel);
    const came = text.slice(Math.max(outEnds[current] - 260, 0), outEnds[current] - (token.text || "").length);
    make("span", "", now, (outEnds[current] > 260 ? "…" : "") + prose(came));
    if (token.text) make("mark", "sd-new", now, prose(token.text));
    if (token.jailed) put(make("span", "sd-now-jailed", now), visible(token.jailed)).title = "withheld";
    if (token.held) make("span", "sd-now-held", now, spaced(token.held)).title = "bytes of an unfinished character";
    now.scrollTop = now.scrollHeight;
    make("h3", "", panel, "All of it");
    const list = make("dl", "", panel);
    const size = chunkSizes.get(token.chunk);
    const fields = [
      ["index", String(current)],
      ["id", token.token_id == null ? (redacted ? "left out" : "—") : String(token.token_id)],
      ["piece", token.piece == null ? (redacted ? "left out" : "—") : visible(token.piece)],
      ["bytes", token.data == null ? "not known" : spaced(token.data) || "none"],
      ["kind", { text: "text", special: "special, shown", skipped: "special, left out", unknown: "unknown" }[token.kind || "text"]],
      ["position", `code point ${token.position}`],
      ["held", spaced(token.held || "") || "nothing"],
      ["withheld", token.jailed ? visible(token.jailed) : "nothing"],
      ["may become", (token.may_become || []).map(visible).join("   ") || "—"],
      ["came out", token.text ? visible(token.text) : "nothing"],
      ["chunk", size > 1 ? `${token.chunk}, of ${size} tokens` : String(token.chunk)],
      ["ended", token.finish_reason ? `${token.finish_reason}${token.finish_reason === "stop" ? `: ${stopName(token.stop_reason)}` : ""}` : "no"],
    ];
    if (current === tokens.length - 1 && end) {
      fields.push(["at the end", end.text ? `${quoted(end.text)} came out` : "nothing came out"]);
      if (end.finish_reason) fields.push(["finish", end.finish_reason + (end.finish_reason === "stop" ? `: ${stopName(end.stop_reason)}` : "")]);
    }
    for (const [name, told] of fields) {
      make("dt", "", list, name);
      const value = make("dd", `sd-field-${name.replaceAll(" ", "-")}`, list);
      put(value, told);
      if (["nothing", "—", "none", "no"].includes(told)) value.classList.add("sd-faint");
      if (!["piece", "withheld", "may become", "came out"].includes(name)) value.textContent = told;
    }
    const help = make("p", "sd-help", panel);
    for (const [keys, told] of [["← →", "step"], ["↑ ↓", "rows"], ["Home End", "ends"], ["[ ]", "waits"], ["/", "search"]]) {
      make("kbd", "", help, keys);
      help.append(` ${told}  `);
    }
  };

  // --- searching ------------------------------------------------------------------------------------------

  let hits = new Set(), order = [], asked = "";
  const tokenAt = (offset) => {
    let low = 0, high = outEnds.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (outEnds[middle] > offset) high = middle; else low = middle + 1;
    }
    return low;
  };
  const look = () => {
    asked = search.value;
    hits = new Set();
    const wanted = asked.toLowerCase(), place_ = /^#(\d+)$/.exec(asked);
    if (place_) {
      if (tokens[Number(place_[1])]) hits.add(Number(place_[1]));
    } else if (wanted) {
      const whole = text.toLowerCase();
      // Lower case may have other lengths; then the case counts.
      const [where, what] = whole.length === text.length ? [whole, wanted] : [text, asked];
      for (let offset = where.indexOf(what); offset >= 0; offset = where.indexOf(what, offset + 1)) {
        for (let index = tokenAt(offset); tokens[index] && (outEnds[index - 1] || 0) < offset + what.length; index += 1) {
          if (tokens[index].text) hits.add(index);
        }
        if (hits.size > 20000) break;
      }
      tokens.forEach((token, index) => {
        if (String(token.token_id) === asked || labels[index].toLowerCase().includes(wanted) || (token.piece || "").toLowerCase().includes(wanted)) hits.add(index);
      });
    }
    order = [...hits].sort((one, other) => one - other);
    for (const number of [...drawn.keys()]) erase(number);
    draw();
    mark_(current, true);
    tell();
  };
  const tell = () => {
    const at_ = order.indexOf(current);
    found.textContent = asked ? (order.length ? `${at_ >= 0 ? at_ + 1 : "–"} of ${order.length}` : "not found") : "";
  };
  const goOn = (direction) => {
    if (search.value !== asked) look();
    if (!order.length) return;
    const next = direction > 0 ? order.find((index) => index > current) ?? order[0]
      : [...order].reverse().find((index) => index < current) ?? order[order.length - 1];
    select(next);
    tell();
  };
  let waiting = 0;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      look();
      if (order.length && !hits.has(current)) goOn(1);
    }, 120);
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      event.preventDefault();
      clearTimeout(waiting);
      goOn(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape") {
      search.value = "";
      look();
      score.focus({ preventScroll: true });
    }
    event.stopPropagation();
  });

  // --- keys and the mouse -----------------------------------------------------------------------------------

  const above = (direction) => {
    const row = rows[rowOf[current] + direction];
    if (!row) return direction < 0 ? 0 : tokens.length - 1;
    const middle = xs[current] + sizes[current] / 2;
    for (let index = row.from; index <= row.to; index += 1) if (xs[index] + sizes[index] >= middle) return index;
    return row.to;
  };
  const page = (direction) => {
    const target = rowAt(Math.max(rows[rowOf[current]].y + direction * score.clientHeight * 0.85, 0));
    return rows[target].from;
  };
  const KEYS = {
    ArrowRight: () => current + 1, ArrowLeft: () => current - 1, ArrowDown: () => above(1), ArrowUp: () => above(-1),
    Home: () => 0, End: () => tokens.length - 1, PageDown: () => page(1), PageUp: () => page(-1),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !tokens.length) return;
    if (/^(INPUT|TEXTAREA|SELECT|SUMMARY)$/.test(event.target.tagName)) return;
    if (panel.contains(event.target) && /^(Arrow|Page|Home|End)/.test(event.key) && !/^Arrow(Left|Right)$/.test(event.key)) return;
    if (event.key === "/") search.focus();
    else if (event.key === "[") wait(-1);
    else if (event.key === "]") wait(1);
    else if (KEYS[event.key]) select(KEYS[event.key](), { focus: true });
    else return;
    event.preventDefault();
  });
  sheet.addEventListener("click", (event) => {
    const line = event.target.closest(".sd-row");
    if (!line || String(window.getSelection())) return;
    const box = sheet.getBoundingClientRect();
    const row = rows[rowAt(event.clientY - box.top)], x = event.clientX - box.left;
    if (x < gutter) return;
    for (let index = row.from; index <= row.to; index += 1) {
      if (x < xs[index] + sizes[index] + 3) { select(index, { focus: true, scroll: false }); return; }
    }
  });
  const jump = (event) => {
    const box = overview.getBoundingClientRect();
    const index = Math.floor(((event.clientX - box.left) / box.width) * tokens.length);
    if (!tokens.length) return;
    score.scrollTop = rows[rowOf[Math.min(Math.max(index, 0), tokens.length - 1)]].y - score.clientHeight / 3;
    select(index, { focus: true, scroll: false });
  };
  overview.addEventListener("pointerdown", (event) => { overview.setPointerCapture(event.pointerId); jump(event); });
  overview.addEventListener("pointermove", (event) => { if (event.buttons & 1) jump(event); });
  let planned = false;
  score.addEventListener("scroll", () => {
    if (planned) return;
    planned = true;
    requestAnimationFrame(() => { planned = false; draw(); mark_(current, true); });
  }, { passive: true });

  const fit = () => {
    const width = score.clientWidth;
    if (width === sheetWidth || !width) { draw(); return; }
    const anchor = rows.length ? rows[rowAt(score.scrollTop + 20)].from : 0;
    sheetWidth = width;
    gutter = width > 640 ? 92 : 12;
    layout();
    if (rows.length) score.scrollTop = anchor ? rows[rowOf[anchor]].y - 10 : 0;
    draw();
    mark_(current, true);
  };
  new ResizeObserver(fit).observe(score);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawOverview);

  // --- what others use -----------------------------------------------------------------------------------------

  return {
    /** Draws more tokens: objects as the lines of a trace have them, in their order. */
    append(records) {
      const follows = current >= 0 && current === tokens.length - 1;
      const lastRow = Math.max(rows.length - 1, 0);
      // What spans the end of a row before may have changed it.
      const from = Math.min(lastRow, ...[openCharacter, openJail].map((span) => (span ? rowOf[span.from] : lastRow)));
      records.forEach(note);
      text += parts.join("");
      parts = [];
      if (!sheetWidth) {
        sheetWidth = score.clientWidth || 800;
        gutter = sheetWidth > 640 ? 92 : 12;
      }
      layout(from || 0);
      if (tokens.length) select(follows ? tokens.length - 1 : Math.max(current, 0), { scroll: follows });
    },
    /** What came at the end without a token, {text, finish_reason, stop_reason} or null; the verdict. */
    finish(given, found = null) {
      end = given;
      verdict = found;
      for (const number of [...drawn.keys()]) erase(number);
      draw();
      if (current >= 0) select(current, { scroll: false });
    },
    select,
    repaint: drawOverview,
    get current() { return current; },
    get length() { return tokens.length; },
  };
};
