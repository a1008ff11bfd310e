// Numbers, sizes, durations and times in the language of the page.
import { locale, t } from "./words.js";

const NONE = "–";

export function count(value) {
  return value == null ? NONE : new Intl.NumberFormat(locale()).format(value);
}

/** A score: enough digits to tell neighbours apart, no more. */
export function score(value, digits = 3) {
  if (value == null || Number.isNaN(value)) return NONE;
  const shown = Math.abs(value) >= 100 ? 1 : digits;
  return new Intl.NumberFormat(locale(), { minimumFractionDigits: shown, maximumFractionDigits: shown }).format(value);
}

/** A number of a rule: ranks and counts are whole. */
export const exact = (value) => score(value, Number.isInteger(value) ? 0 : 4);

/** An amount per second, to two digits. */
export function rate(value) {
  const digits = value >= 100 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 2 };
  return value == null ? NONE : new Intl.NumberFormat(locale(), digits).format(value);
}

/** An amount of money, without its currency: the installation's prices have none. */
export function amount(value) {
  return value == null ? NONE : new Intl.NumberFormat(locale(), { maximumFractionDigits: value < 1 ? 6 : 2 }).format(value);
}

export function percent(share) {
  return new Intl.NumberFormat(locale(), { style: "percent", maximumFractionDigits: 0 }).format(share);
}

export function milliseconds(value) {
  if (value == null) return NONE;
  return `${new Intl.NumberFormat(locale(), { maximumFractionDigits: value < 10 ? 1 : 0 }).format(value)} ms`;
}

/** Seconds in the two largest units that matter, in Chinese with its own units: 8 s, 3 min 20 s, 2 h 5 min, 4 d, or 8 秒. */
export function duration(seconds) {
  if (seconds == null) return NONE;
  if (seconds < 10) return t("time.s", { count: new Intl.NumberFormat(locale(), { maximumFractionDigits: 1 }).format(seconds) });
  const whole = Math.round(seconds);
  const parts = [["d", Math.floor(whole / 86400)], ["h", Math.floor(whole / 3600) % 24], ["min", Math.floor(whole / 60) % 60], ["s", whole % 60]];
  const first = parts.findIndex(([, value]) => value > 0);
  return parts.slice(first, first + 2).filter(([, value]) => value > 0).map(([unit, value]) => t(`time.${unit}`, { count: value })).join(" ");
}

export function bytes(value) {
  if (value == null) return NONE;
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (value >= size) return `${score(value / size, 1)} ${unit}`;
  }
  return `${value} B`;
}

export function moment(text) {
  if (!text) return NONE;
  return new Intl.DateTimeFormat(locale(), { dateStyle: "medium", timeStyle: "medium" }).format(new Date(text));
}

export const day = (text) => new Intl.DateTimeFormat(locale(), { dateStyle: "medium" }).format(new Date(text));

/** The age in words; the exact time is in the title. */
export function ago(text) {
  if (!text) return NONE;
  const seconds = (Date.now() - new Date(text).getTime()) / 1000;
  if (seconds < 45) return t("time.now");
  const relative = new Intl.RelativeTimeFormat(locale(), { numeric: "auto", style: "short" });
  for (const [unit, size] of [["day", 86400], ["hour", 3600], ["minute", 60]]) {
    if (seconds >= size) return relative.format(-Math.round(seconds / size), unit);
  }
  return relative.format(-1, "minute");
}

export const short = (id) => (id && id.length > 8 ? id.slice(0, 8) : id);

export function pages(chunk) {
  return chunk.page_end > chunk.page ? `${chunk.page}-${chunk.page_end}` : `${chunk.page}`;
}
