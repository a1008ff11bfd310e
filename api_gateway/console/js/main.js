// Starts the page: words first, then a key stored in this tab, then the view in the address.
import { html, render, useEffect, useState } from "./html.js";
import { get } from "./api.js";
import { Notices } from "./parts/notices.js";
import { Problem, Waiting } from "./parts/states.js";
import { applyTheme, language, theme } from "./preferences.js";
import { route } from "./router.js";
import { keptKey, session, signIn, signOut } from "./session.js";
import { Shell } from "./shell.js";
import { useStore } from "./store.js";
import { loadWords, t } from "./words.js";
import { Alignment } from "./views/alignment.js";
import { DeadLetters } from "./views/dead_letters.js";
import { Document } from "./views/document.js";
import { Documents } from "./views/documents.js";
import { Health } from "./views/health.js";
import { Job } from "./views/job.js";
import { Jobs } from "./views/jobs.js";
import { Overview } from "./views/overview.js";
import { Playground } from "./views/playground.js";
import { Preview } from "./views/preview.js";
import { SignIn } from "./views/signin.js";
import { Trace } from "./views/trace.js";
import { Traces } from "./views/traces.js";
import { Upload } from "./views/upload.js";

const VIEWS = {
  overview: () => html`<${Overview} />`,
  jobs: (id) => (id ? html`<${Job} key=${id} id=${id} />` : html`<${Jobs} />`),
  "dead-letters": () => html`<${DeadLetters} />`,
  upload: () => html`<${Upload} />`,
  documents: (namespace, id) => (id
    ? html`<${Document} key=${`${namespace}/${id}`} namespace=${namespace} id=${id} />`
    : html`<${Documents} namespace=${namespace} />`),
  preview: () => html`<${Preview} />`,
  playground: () => html`<${Playground} />`,
  traces: (id) => (id ? html`<${Trace} key=${id} id=${id} />` : html`<${Traces} />`),
  alignment: () => html`<${Alignment} />`,
  health: () => html`<${Health} />`,
};

function App() {
  const who = useStore(session);
  const { parts } = useStore(route);
  const [, setSpeaking] = useState(language.get()); // all below is rendered anew, and keeps what was typed
  const [checking, setChecking] = useState(Boolean(keptKey()));
  const [fault, setFault] = useState(null);

  useEffect(() => language.subscribe(async (code) => {
    await loadWords(code);
    setSpeaking(code);
  }), []);

  async function restore() {
    const key = keptKey();
    setFault(null);
    try {
      signIn(key, await get("v1/keys/current", { key }));
      setChecking(false);
    } catch (error) {
      if (error.status === 401 || error.status === 403) {
        signOut("signin.expired");
        setChecking(false);
      } else {
        setFault(error);
      }
    }
  }
  useEffect(() => { if (checking) restore(); }, []);

  if (fault) return html`<main class="alone"><${Problem} error=${fault} retry=${restore} /></main>`;
  if (checking) return html`<main class="alone"><${Waiting} /></main>`;
  const view = VIEWS[parts[0] ?? "overview"];
  return html`
    ${who
      ? html`<${Shell}>${view ? view(...parts.slice(1)) : html`<h1>${t("nav.nothing_here")}</h1>`}<//>`
      : html`<${SignIn} />`}
    <${Notices} />`;
}

applyTheme(theme.get());
await loadWords();
render(html`<${App} />`, document.getElementById("app"));
