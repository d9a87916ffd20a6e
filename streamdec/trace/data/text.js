/* Text and bytes as they are shown.

   In: strings and hexadecimal bytes, as the records of a trace have them. Out: strings in which every character is
   visible, and which do not affect the text around them. Does not use the DOM. */
"use strict";

const streamdecText = (() => {
  const NAMED = { "\n": "↵", "\r": "␍", "\t": "⇥", "\u007f": "␡" };
  /** Invisible: controls, format characters, spaces except U+0020, private use, lone surrogates. */
  const UNSEEN = /[\u0000-\u001f\u007f-\u00a0\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ue000-\uf8ff]|[\u{e0000}-\u{e0fff}\u{f0000}-\u{10ffff}]|\p{Cs}/gu;
  /** What changes how the text after it is drawn, or is no text. */
  const HARMFUL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|\p{Cs}/gu;
  const NARROW_SPACE = "\u202f";

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
  const prose = (text) => text.replace(HARMFUL, escapeOne);
  const quoted = (text) => `“${visible(short(text, 200)).replaceAll(" ", "·")}”`;
  /** Text of at most so many units, and how much was left out. */
  const short = (text, most) => (text.length <= most ? text : `${start(text, most)}…(+${text.length - most})`);
  /** The first or last units of a text; no half of a pair of surrogates. */
  const start = (text, size) => text.slice(0, size).replace(/[\ud800-\udbff]$/, "");
  const ending = (text, size) => text.slice(Math.max(text.length - size, 0)).replace(/^[\udc00-\udfff]/, "");
  const first = (text) => (text ? String.fromCodePoint(text.codePointAt(0)) : "");

  const pairsOf = (hex) => hex.match(/../g) || [];
  const bytesOf = (hex) => Uint8Array.from(pairsOf(hex), (pair) => parseInt(pair, 16));
  const spaced = (hex) => pairsOf(hex).join(" ");
  const lenient = new TextDecoder("utf-8", { ignoreBOM: true });
  const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  /** Bytes as text, with U+FFFD for bytes that are not text. */
  const decoded = (bytes) => lenient.decode(bytes);
  const isWhole = (bytes) => {
    try { strict.decode(bytes); return true; } catch { return false; }
  };
  /** How many bytes a character has that begins with this one; 0: none does. */
  const sizeOf = (byte) => (byte < 0x80 ? 1 : byte < 0xc2 ? 0 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : byte < 0xf5 ? 4 : 0);

  /** Bytes as text; bytes that are not a character are shown in hexadecimal. */
  const mixed = (bytes) => {
    const parts = [];
    let text = "";
    for (let at = 0; at < bytes.length;) {
      const size = sizeOf(bytes[at]), part = bytes.subarray(at, at + size);
      if (size > 0 && part.length === size && isWhole(part)) {
        text += decoded(part);
        at += size;
        continue;
      }
      if (text) parts.push(visible(text));
      text = "";
      parts.push(bytes[at].toString(16).padStart(2, "0"));
      at += 1;
    }
    if (text) parts.push(visible(text));
    return parts.join(NARROW_SPACE);
  };
  /** What a token is, to a reader. */
  const labelOf = (token) => {
    if (token.kind === "unknown") return "unknown";
    if (token.data == null) return visible(short(token.piece ?? token.text ?? "", 400)) || "—";
    if (!token.data) return token.piece ? visible(token.piece) : "empty";
    const bytes = bytesOf(token.data.slice(0, 1600)), more = token.data.length > 1600 ? "…" : "";
    return (isWhole(bytes) ? visible(decoded(bytes)) : mixed(bytes)) + more;
  };

  return { visible, prose, quoted, short, ending, first, bytesOf, spaced, decoded, isWhole, sizeOf, labelOf };
})();
