// The only import of the libraries: markup as tagged templates, components, hooks.
import { Fragment, h, render } from "../vendor/preact.js";
import htm from "../vendor/htm.js";

export const html = htm.bind(h);
export { Fragment, render };
export { useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "../vendor/hooks.js";
