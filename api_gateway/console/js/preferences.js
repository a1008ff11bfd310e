// Theme, language and open sections of the navigation: stored in this browser, never sent.
import { createStore } from "./store.js";

export const THEMES = ["system", "light", "dark"];
export const LANGUAGES = ["en", "zh"];

const read = (name, allowed, otherwise) => {
  try {
    const kept = localStorage.getItem(name);
    return allowed.includes(kept) ? kept : otherwise;
  } catch {
    return otherwise; // storage may be forbidden; the page works without it
  }
};

const keep = (name, value) => {
  try {
    localStorage.setItem(name, value);
  } catch {
    // As above: the choice then lasts as long as the page.
  }
};

const browserLanguage = navigator.language?.toLowerCase().startsWith("zh") ? "zh" : "en";

export const theme = createStore(read("chordwise.theme", THEMES, "system"));
export const language = createStore(read("chordwise.language", LANGUAGES, browserLanguage));

export function setTheme(value) {
  keep("chordwise.theme", value);
  applyTheme(value);
  theme.set(value);
}

export function setLanguage(value) {
  keep("chordwise.language", value);
  language.set(value);
}

const SECTIONS = "chordwise.sections.";

/** Whether the user left a section of the navigation open; null if it was never opened or closed by hand. */
export const isOpened = (section) => ({ open: true, closed: false })[read(SECTIONS + section, ["open", "closed"], "")] ?? null;

export const keepOpened = (section, open) => keep(SECTIONS + section, open ? "open" : "closed");

/** `data-theme` is absent for the system's own choice, which the style sheet then takes from the media query. */
export function applyTheme(value) {
  if (value === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = value;
}
