// Starts the page: words first, then a key stored in this tab, then the view in the address.
import { html, render, useEffect, useState } from "./html.js";
import { get, post } from "./api.js";
import { returns, unheard } from "./connection.js";
import { Notices } from "./parts/notices.js";
import { Problem, Waiting } from "./parts/states.js";
import { viewOf } from "./pages.js";
import { applyTheme, language, theme } from "./preferences.js";
import { route } from "./router.js";
import { ended, keptKey, session, signIn, signOut } from "./session.js";
import { cameBack, forget, isSignedOn, resume } from "./sign_on.js";
import { Shell } from "./shell.js";
import { useStore } from "./store.js";
import { loadSentences } from "./sentences.js";
import { loadWords, t } from "./words.js";
import { SignIn } from "./views/signin.js";

function App() {
  const who = useStore(session);
  const { parts } = useStore(route);
  const [, setSpeaking] = useState(language.get()); // all below is rendered anew, and keeps what was typed
  const code = parts[0] === "sign-in" ? parts[1] ?? "" : null; // of a link of this machine's `make up`
  const returned = parts[0] === "signed-on" ? parts[1] ?? "" : null; // from the provider at which people sign in
  const [checking, setChecking] = useState(Boolean(keptKey()) || code !== null || returned !== null || isSignedOn());
  const [fault, setFault] = useState(null);

  useEffect(() => language.subscribe(async (code) => {
    await Promise.all([loadWords(code), loadSentences(code)]);
    setSpeaking(code);
  }), []);

  async function restore() {
    const key = keptKey();
    const whose = (own) => get("v1/keys/current", { key: own });
    setFault(null);
    try {
      if (key) signIn(key, await whose(key));
      else if (isSignedOn()) await resume(whose);
      setChecking(false);
    } catch (error) {
      if (error.status === 401 || error.status === 403) {
        forget();
        signOut(key ? "signin.expired" : "signin.over");
        setChecking(false);
      } else {
        setFault(error);
      }
    }
  }
  useEffect(() => {
    if (returned !== null) cameBack(returned);
    if (checking && code === null) restore();
  }, []);

  async function enter() {
    history.replaceState(null, "", "#/"); // before anything else, so that the code is in no history
    dispatchEvent(new HashChangeEvent("hashchange"));
    setChecking(true);
    setFault(null);
    try {
      const { api_key: key } = await post("console/sign-in", { code }, { key: null });
      signIn(key, await get("v1/keys/current", { key }));
    } catch {
      if (keptKey()) return restore(); // this tab is signed in already: the link changes nothing
      ended.set("signin.link_ended");
    }
    return setChecking(false);
  }
  useEffect(() => { if (code !== null) enter(); }, [code]);
  useEffect(() => (fault ? returns.subscribe(restore) : undefined), [fault]);

  if (fault) return html`<main class="alone"><${Problem} error=${fault} retry=${restore} /></main>`;
  if (checking) return html`<main class="alone"><${Waiting} /></main>`;
  const view = viewOf(parts);
  return html`
    ${who
      ? html`<${Shell}>${view ? html`<${View} key=${view.key} of=${view} />` : html`<h1>${t("nav.nothing_here")}</h1>`}<//>`
      : html`<${SignIn} />`}
    <${Notices} />`;
}

/** A page whose module may still have to be loaded. `of`: the result of `viewOf`. */
function View({ of }) {
  const [loaded, setLoaded] = useState(null);
  useEffect(() => {
    let here = true;
    of.load().then((view) => here && setLoaded({ view }), () => here && setLoaded({
      error: { title: t("error.no_connection"), message: t("error.no_connection_detail") },
    }));
    return () => { here = false; };
  }, [of.load]);
  useEffect(() => {
    if (!loaded?.error) return undefined;
    unheard();
    // A browser may keep a module that failed to load, so only a new page can try again.
    return returns.subscribe(() => location.reload());
  }, [loaded]);
  if (!loaded) return html`<${Waiting} />`;
  if (loaded.error) return html`<${Problem} error=${loaded.error} retry=${() => location.reload()} />`;
  return html`<${loaded.view} parts=${of.rest} />`;
}

applyTheme(theme.get());
await Promise.all([loadWords(), loadSentences()]);
render(html`<${App} />`, document.getElementById("app"));
