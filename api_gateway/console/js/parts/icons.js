// Drawn rather than typed: not every system has a glyph for these.
import { html } from "../html.js";

const SHAPES = {
  menu: html`<path d="M2.5 4.5h11M2.5 8h11M2.5 11.5h11" />`,
  copy: html`<rect x="5.5" y="5.5" width="7.5" height="8" rx="1.5" /><path d="M10.5 5.5v-1.5a1.5 1.5 0 0 0-1.5-1.5h-4.500a1.5 1.5 0 0 0-1.5 1.5v5a1.5 1.5 0 0 0 1.5 1.5h1" />`,
  done: html`<path d="M3.5 8.500l3 3 6-7" />`,
  close: html`<path d="M4 4l8 8M12 4l-8 8" />`,
  light: html`<circle cx="8" cy="8" r="2.8" /><path d="M8 1.5v1.700M8 12.800v1.700M1.5 8h1.700M12.8 8h1.700M3.4 3.400l1.2 1.200M11.4 11.400l1.2 1.200M12.6 3.400l-1.2 1.200M4.6 11.400l-1.2 1.2" />`,
  dark: html`<path d="M13 9.800A5.5 5.5 0 0 1 6.2 3 5.5 5.5 0 1 0 13 9.800z" />`,
  system: html`<circle cx="8" cy="8" r="5.5" /><path class="filled" d="M8 2.500a5.5 5.5 0 0 1 0 11z" />`,
  outside: html`<path d="M6 3.500h-2.500v9h9V10M9 3h4v4M13 3l-6 6" />`,
};

export const Icon = ({ name }) => html`<svg class="drawn" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false">${SHAPES[name]}</svg>`;
