// The frame of every view: navigation, the signed-in tenant, theme and language.
import { html, useEffect, useRef, useState } from "./html.js";
import { get } from "./api.js";
import { away } from "./connection.js";
import { useLoad } from "./load.js";
import { Icon } from "./parts/icons.js";
import { announce } from "./parts/notices.js";
import { FIRST, GROUPS } from "./pages.js";
import { isOpened, keepOpened, LANGUAGES, language, setLanguage, setTheme, theme, THEMES } from "./preferences.js";
import { go, link, route } from "./router.js";
import { may, session, signOut } from "./session.js";
import { endSession } from "./sign_on.js";
import { useStore } from "./store.js";
import { locale, t } from "./words.js";

const SESSION_CHECKED_EVERY_MS = 15000;
const ICON = new URL("../favicon.svg", import.meta.url).href; // below the version's folder, so that it is kept

export function Shell({ children }) {
  const { parts } = useStore(route);
  const who = useStore(session);
  const [open, setOpen] = useState(false);
  const main = useRef(null);
  const here = parts[0] ?? FIRST;
  const first = useRef(true);
  useEffect(() => {
    setOpen(false);
    if (!first.current) main.current.focus({ preventScroll: true });
    if (!first.current) scrollTo(0, 0);
    first.current = false;
  }, [parts.join("/")]);

  const since = useStore(away);
  // Pages that read nothing by themselves notice here that the key was revoked, or that the gateway has gone.
  useLoad((signal) => get("v1/keys/current", { signal }), [], { everyMs: SESSION_CHECKED_EVERY_MS });

  function skip(event) {
    event.preventDefault();
    main.current.focus();
  }

  async function leave() {
    let elsewhere = null;
    try {
      if (who.signedOn) elsewhere = await endSession();
    } catch (error) {
      return announce(error.message);
    }
    signOut();
    return location.replace(elsewhere ?? link(...parts)); // a question in the address is for nobody who comes after
  }

  return html`
    <a class="skip" href="#main" onClick=${skip}>${t("nav.skip")}</a>
    <header class="topbar">
      <button class="menu icon" aria-expanded=${open} aria-controls="nav" onClick=${() => setOpen(!open)}>
        <${Icon} name="menu" /><span class="visually-hidden">${t("nav.menu")}</span>
      </button>
      <a class="brand" href=${link(FIRST)}><img src=${ICON} alt="" width="22" height="22" />Chordwise</a>
      <span class="tenant" title=${t("nav.tenant")}><span class="visually-hidden">${t("nav.tenant")} </span>${who.tenant_id}</span>
      <span class="spacer"></span>
      <${Looks} />
      <button class="quiet" onClick=${leave} title=${`${t(who.signedOn ? "nav.person" : "nav.key")}: ${who.name}`}>${t("nav.sign_out")}</button>
    </header>
    ${since && html`<p class="away" role="alert">${t("error.away", { time: new Date(since).toLocaleTimeString(locale()) })}</p>`}
    <div class=${since ? "columns is-away" : "columns"}>
      <nav id="nav" class=${open ? "side open" : "side"} aria-label=${t("nav.label")}>
        <${FindBox} />
        ${GROUPS.map(([group, pages]) => [group, pages.filter(({ scope }) => !scope || may(scope))]).map(([group, pages]) => pages.length > 0 && html`
          <${Section} key=${group} group=${group} pages=${pages} here=${here} />`)}
        <p class="nav-foot"><a href="../docs" rel="noreferrer">${t("nav.api_docs")}</a></p>
      </nav>
      <main id="main" tabindex="-1" ref=${main}>${children}</main>
    </div>`;
}

const CLOSED_AT_FIRST = ["nav.operation", "nav.administration"];

/** A section of the navigation. It opens with each visit to one of its pages; beyond that, it stays as the user left it. */
function Section({ group, pages, here }) {
  const [open, setOpen] = useState(isOpened(group) ?? !CLOSED_AT_FIRST.includes(group));
  useEffect(() => { if (pages.some(({ name }) => name === here)) setOpen(true); }, [here]);
  function toggle({ target }) {
    if (target.open === open) return; // not by the user
    setOpen(target.open);
    keepOpened(group, target.open);
  }
  return html`<details class="section" open=${open} onToggle=${toggle}>
    <summary id=${group}>${t(group)}</summary>
    <ul aria-labelledby=${group}>
      ${pages.map(({ name }) => html`<li key=${name}>
        <a href=${link(name)} aria-current=${name === here ? "page" : undefined}>${t(`nav.${name}`)}</a>
      </li>`)}
    </ul>
  </details>`;
}

/** One box for documents, failures and jobs, on every page. */
function FindBox() {
  const [text, setText] = useState("");
  function send(event) {
    event.preventDefault();
    if (text.trim()) go("find", text.trim());
  }
  return html`<form class="find" onSubmit=${send}>
    <input type="search" maxlength="255" aria-label=${t("find.box")} placeholder=${t("find.box")} value=${text} onInput=${(event) => setText(event.target.value)} />
  </form>`;
}

/** Theme and language; on the sign-in page too. */
export function Looks() {
  const shownTheme = useStore(theme);
  const shownLanguage = useStore(language);
  const nextTheme = THEMES[(THEMES.indexOf(shownTheme) + 1) % THEMES.length];
  const other = LANGUAGES.find((code) => code !== shownLanguage);
  return html`
    <button class="quiet icon" onClick=${() => setTheme(nextTheme)}
      title=${t(`theme.${shownTheme}`)} aria-label=${`${t("theme.label")}: ${t(`theme.${shownTheme}`)}`}>
      <${Icon} name=${shownTheme} />
    </button>
    <button class="quiet" lang=${other === "zh" ? "zh-CN" : "en"} onClick=${() => setLanguage(other)}>
      ${other === "zh" ? "中文" : "English"}
    </button>`;
}

/** The head of a view: its title, its purpose, and its actions. */
export function Heading({ title, about, children, back }) {
  useEffect(() => { document.title = `${title} · Chordwise`; }, [title]);
  return html`
    <div class="heading">
      <div>
        ${back && html`<a class="back" href=${back[0]}>← ${back[1]}</a>`}
        <h1>${title}</h1>
        ${about && html`<p class="about">${about}</p>`}
      </div>
      ${children && html`<div class="buttons">${children}</div>`}
    </div>`;
}
