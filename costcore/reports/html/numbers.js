// Exact numbers as readable text. A number is a BigInt, a symbolic expression is a string.

const BASE = { flops: 1000n, bytes: 1024n };
const PREFIXES = ["", "K", "M", "G", "T"];
const DIGITS = 4; // significant ones

/** Parses an amount of the report: returns a BigInt, a symbolic expression as text, or null. */
function parseAmount(text) {
  return text === null ? null : /^-?\d+$/.test(text) ? BigInt(text) : text;
}

const isNumber = (value) => typeof value === "bigint";

/** Returns the power of the largest prefix with which the value is at least 1. */
function powerOf(value, kind) {
  let power = 0;
  while (power + 1 < PREFIXES.length && isNumber(value) && value >= BASE[kind] ** BigInt(power + 1)) power += 1;
  return power;
}

/** Returns how many decimals give four significant digits in units of a prefix. */
function decimalsOf(value, power, kind) {
  return isNumber(value) && power ? Math.max(0, DIGITS - String(value / BASE[kind] ** BigInt(power)).length) : 0;
}

/** Returns the value in units of a prefix, by default with four significant digits, rounded half to even. */
function scaled(value, power, kind, decimals = decimalsOf(value, power, kind)) {
  if (power === 0) return grouped(value);
  const unit = BASE[kind] ** BigInt(power);
  const shift = 10n ** BigInt(decimals);
  let units = (value * shift) / unit;
  const twice = 2n * ((value * shift) % unit);
  if (twice > unit || (twice === unit && units % 2n === 1n)) units += 1n;
  const rest = String(units % shift).padStart(decimals, "0");
  return grouped(units / shift) + (decimals ? `.${rest}` : "");
}

/** Returns `1 call` or `2 calls`. */
const plural = (n, word) => `${grouped(n)} ${word}${n === 1 ? "" : "s"}`;

/** Separates the thousands of a whole number. */
const grouped = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, ",");

/** Returns the unit with the prefix of a power: `G` or `GiB`. */
function unitOf(power, kind) {
  return kind === "bytes" ? (power ? `${PREFIXES[power]}iB` : "B") : PREFIXES[power];
}

/** Returns `4.112 G`, `97.49 MiB` or `4 KiB`; a symbolic expression as it is. */
function readable(value, kind) {
  if (value === null) return "–";
  if (!isNumber(value)) return value;
  const power = powerOf(value, kind);
  return `${scaled(value, power, kind).replace(/\.0+$|(\.\d*?)0+$/, "$1")} ${unitOf(power, kind)}`.trim();
}

/** Returns `4.112 G (4,111,514,624)`, or only one of the two if they are equal. */
function readableAndExact(value, kind) {
  if (!isNumber(value) || powerOf(value, kind) === 0) return readable(value, kind);
  return `${readable(value, kind)} (${grouped(value)}${kind === "bytes" ? " B" : ""})`;
}

/** Returns `4.112 G (4,111,514,624), 12.3%`. */
function amountAndShare(value, { key, kind }) {
  return `${readableAndExact(value, kind)}, ${percent(ratio(value, totals[key]))}`;
}

/** Returns part / whole as a float, for lengths and percentages; null if one of them is symbolic. */
function ratio(part, whole) {
  if (!isNumber(part) || !isNumber(whole)) return null;
  return whole === 0n ? 0 : Number(part) / Number(whole);
}

function percent(share) {
  if (share === null) return "–";
  if (share > 0 && share < 0.0001) return "<0.01%";
  return `${(100 * share).toFixed(share > 0 && share < 0.0995 ? 2 : 1)}%`;
}

/** Returns a number with four significant digits. */
function significant(value) {
  if (value === null) return "–";
  if (value >= 1000) return grouped(Math.round(value));
  return value > 0 && value < 0.001 ? value.toExponential(1) : String(Number(value.toPrecision(DIGITS)));
}

const milliseconds = (seconds) => significant(seconds === null ? null : 1000 * seconds);

/** Sums a property of all items; returns null if one of the amounts is symbolic. */
function sum(items, key) {
  let total = 0n;
  for (const item of items) {
    if (item[key] === null) continue;
    if (!isNumber(item[key])) return null;
    total += item[key];
  }
  return total;
}
