// The API reference at /docs: every operation of /openapi.json with navigation, search and a request to try.
import { html, render, useEffect, useMemo, useRef, useState } from "../html.js";
import { address, get } from "../api.js";
import { useLoad } from "../load.js";
import { Text } from "../parts/fields.js";
import { Icon } from "../parts/icons.js";
import { Notices } from "../parts/notices.js";
import { Loaded } from "../parts/states.js";
import { applyTheme, language, theme } from "../preferences.js";
import { link, route } from "../router.js";
import { Looks } from "../shell.js";
import { useStore } from "../store.js";
import { loadWords, t, word } from "../words.js";
import { grouped, matching, operationsOf } from "./document.js";
import { Described, Operation } from "./operation.js";
import { keyOf, setKey } from "./request.js";

function Reference() {
  const [, setSpeaking] = useState(language.get());
  useEffect(() => language.subscribe(async (code) => {
    await loadWords(code);
    setSpeaking(code);
  }), []);
  const file = useLoad((signal) => get("openapi.json", { signal, key: null }), []);
  const operations = useMemo(() => (file.data ? operationsOf(file.data) : []), [file.data]);
  const { parts } = useStore(route);
  const chosen = operations.find(({ id }) => id === parts[0]);
  const [open, setOpen] = useState(false);
  const main = useRef(null);
  useEffect(() => {
    setOpen(false);
    document.title = `${chosen ? `${chosen.method} ${chosen.path}` : t("reference.title")} · Chordwise`;
    if (chosen) {
      scrollTo(0, 0);
      main.current?.focus({ preventScroll: true });
    }
  }, [chosen]);

  return html`
    <header class="topbar">
      <button class="menu icon" aria-expanded=${open} aria-controls="nav" onClick=${() => setOpen(!open)}>
        <${Icon} name="menu" /><span class="visually-hidden">${t("nav.menu")}</span>
      </button>
      <a class="brand" href="#/"><img src=${address("console/favicon.svg")} alt="" width="22" height="22" />Chordwise</a>
      <span class="spacer"></span>
      <${Looks} />
      <a class="button quiet" href=${address("console/")}>${t("reference.console")}</a>
    </header>
    <${Loaded} of=${file} isEmpty=${() => false}>${(data) => html`
      <div class="columns reference">
        <${Navigation} operations=${operations} chosen=${chosen} open=${open} />
        <main id="main" tabindex="-1" ref=${main}>
          ${chosen ? html`<${Operation} key=${chosen.id} of=${chosen} schemas=${data.components.schemas} />`
            : html`<${Start} of=${data} operations=${operations} missing=${parts.length > 0} />`}
        </main>
      </div>`}<//>
    <${Notices} />`;
}

function Navigation({ operations, chosen, open }) {
  const [sought, setSought] = useState("");
  const shown = useMemo(() => grouped(matching(operations, sought)), [operations, sought]);
  return html`<nav id="nav" class=${open ? "side open" : "side"} aria-label=${t("reference.operations")}>
    <${Text} label=${t("reference.search")} type="search" value=${sought} onInput=${setSought} placeholder=${t("reference.search_hint")} />
    <p class="hint" role="status">${sought && t("reference.found", { count: shown.reduce((sum, [, list]) => sum + list.length, 0) })}</p>
    ${shown.map(([tag, list]) => html`<details key=${`${tag}${sought ? " sought" : ""}`} open=${Boolean(sought) || chosen?.tag === tag}>
      <summary>${word("tag", tag)}</summary>
      <ul>${list.map((each) => html`<li key=${each.id}>
        <a href=${link(each.id)} aria-current=${each === chosen ? "page" : undefined}>
          <span class=${`method ${each.method}`}>${each.method}</span> ${each.summary}</a></li>`)}
      </ul>
    </details>`)}
  </nav>`;
}

function Start({ of, operations, missing }) {
  const [key, write] = useState(keyOf());
  return html`
    <div class="heading"><h1>${t("reference.title")} <small>${of.info.version}</small></h1></div>
    ${missing && html`<p class="note warn" role="alert">${t("reference.missing")}</p>`}
    <p class="about"><${Described} text=${of.info.description} /></p>
    <form class="panel form" onSubmit=${(event) => event.preventDefault()}>
      <${Text} label=${t("signin.key")} type="password" value=${key} spellcheck=${false} placeholder="cw_…" hint=${t("reference.key_hint")}
        onInput=${(next) => { write(next); setKey(next); }} />
    </form>
    <p>${t("reference.elsewhere")} <a href=${address("openapi.json")}>openapi.json</a></p>
    ${grouped(operations).map(([tag, list]) => html`<section key=${tag} aria-labelledby=${`tag-${tag}`}>
      <h2 id=${`tag-${tag}`}>${word("tag", tag)}</h2>
      <ul class="plain lines">${list.map((each) => html`<li key=${each.id}>
        <a href=${link(each.id)}><span class=${`method ${each.method}`}>${each.method}</span> <code>${each.path}</code></a> ${each.summary}</li>`)}
      </ul>
    </section>`)}`;
}

applyTheme(theme.get());
await loadWords();
render(html`<${Reference} />`, document.getElementById("app"));
