// Form fields: a label, a control, and a hint or an error, linked for screen readers.
import { html, useEffect, useId, useState } from "../html.js";
import { get } from "../api.js";
import { useLoad } from "../load.js";
import { t } from "../words.js";

export function Field({ label, hint, fault, children, class: kind = "" }) {
  const id = useId();
  const described = hint || fault ? `${id}-hint` : undefined;
  return html`<div class=${`field ${kind}`}>
    <label for=${id}>${label}</label>
    ${children({ id, "aria-describedby": described, "aria-invalid": fault ? "true" : undefined })}
    ${described && html`<p id=${described} class=${fault ? "fault" : "hint"}>${fault || hint}</p>`}
  </div>`;
}

/** `refused`: the reason for which the browser does not submit the value. */
export function Text({ label, value, onInput, hint, fault, class: kind, refused = "", ...rest }) {
  return html`<${Field} label=${label} hint=${hint} fault=${fault} class=${kind}>
    ${(ties) => html`<input type="text" autocomplete="off" ...${ties} ...${rest} value=${value} ref=${(node) => node?.setCustomValidity(refused)}
      onInput=${(event) => onInput(event.target.value)} />`}
  <//>`;
}

export function Area({ label, value, onInput, hint, fault, rows = 6, ...rest }) {
  return html`<${Field} label=${label} hint=${hint} fault=${fault}>
    ${(ties) => html`<textarea rows=${rows} ...${ties} ...${rest} value=${value}
      onInput=${(event) => onInput(event.target.value)}></textarea>`}
  <//>`;
}

/** `options`: `[value, label]` pairs. */
export function Choice({ label, value, onInput, options, hint, fault, class: kind, ...rest }) {
  return html`<${Field} label=${label} hint=${hint} fault=${fault} class=${kind}>
    ${(ties) => html`<select ...${ties} ...${rest} value=${value} onChange=${(event) => onInput(event.target.value)}>
      ${options.map(([option, text]) => html`<option key=${option} value=${option} selected=${option === value}>${text}</option>`)}
    </select>`}
  <//>`;
}

export function Check({ label, checked, onInput, ...rest }) {
  return html`<label class="check">
    <input type="checkbox" checked=${checked} ...${rest} onChange=${(event) => onInput(event.target.checked)} />
    <span>${label}</span>
  </label>`;
}

/** Several of a few options, in the options' order. */
export function Checks({ label, value, onInput, options, hint, fault }) {
  const id = useId();
  const set = (option, on) => onInput(options.map(([each]) => each).filter((each) => (each === option ? on : value.includes(each))));
  return html`<fieldset class="field" aria-describedby=${hint || fault ? id : undefined}>
    <legend>${label}</legend>
    ${options.map(([option, text]) => html`<${Check} key=${option} label=${text} checked=${value.includes(option)} onInput=${(on) => set(option, on)} />`)}
    ${(hint || fault) && html`<p id=${id} class=${fault ? "fault" : "hint"}>${fault || hint}</p>`}
  </fieldset>`;
}

/** A few exclusive choices side by side. */
export function Segments({ label, value, onInput, options }) {
  const name = useId();
  return html`<fieldset class="segments">
    <legend class="visually-hidden">${label}</legend>
    ${options.map(([option, text]) => html`<label key=${option} class=${option === value ? "on" : ""}>
      <input type="radio" name=${name} value=${option} checked=${option === value} onChange=${() => onInput(option)} />
      <span>${text}</span>
    </label>`)}
  </fieldset>`;
}

/** The tenant's first 200 namespaces; the fields of namespace_choice.js find the others. */
export const useNamespaces = () => useLoad((signal) => get("v1/namespaces?limit=200", { signal }).then((page) => page.data), []);

/** Runs `then` when a value has not changed for a moment. */
export function useSettled(value, ms = 300) {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}
