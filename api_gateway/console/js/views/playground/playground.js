// One question, answered in one way, or in two side by side. The address holds the question with its settings.
import { html, useEffect, useState } from "../../html.js";
import { get } from "../../api.js";
import { useLoad } from "../../load.js";
import { Check, Text } from "../../parts/fields.js";
import { Samples } from "../../parts/samples.js";
import { Empty, Loaded, Problem } from "../../parts/states.js";
import { link, route } from "../../router.js";
import { session } from "../../session.js";
import { Heading } from "../../shell.js";
import { useStore } from "../../store.js";
import { t } from "../../words.js";
import { addressOf, draftOf, fresh } from "./address.js";
import { bodyOf, Settings } from "./settings.js";
import { faultOf, Filters } from "./filters.js";
import { History, remember } from "./history.js";
import { MOST_ASKED, Namespaces, useEveryNamespace } from "./namespaces.js";
import { Side } from "./side.js";

const LONGEST = 8000; // characters of a question, as the API has it

// Kept while the user visits other pages of the tab: the form, and the address of the last question. Cleared on sign-out.
let kept = { draft: fresh(), address: null };
session.subscribe((who) => { if (!who) kept = { draft: fresh(), address: null }; });

export function Playground() {
  const namespaces = useEveryNamespace();
  const profiles = useLoad((signal) => get("v1/profiles", { signal }).then((page) => page.data), []);
  const config = useLoad((signal) => get("console/config.json", { signal }), []);
  const { query } = useStore(route);
  const [state, setState] = useState(kept.draft);
  const [asked, setAsked] = useState(null);
  const [again, setAgain] = useState(0);
  const [results, setResults] = useState([null, null]);
  useEffect(() => { if (session.get()) kept.draft = state; }, [state]);
  useEffect(() => { if (!query.has("text") && kept.address) location.replace(kept.address); }, []);

  const set = (change) => setState((before) => ({ ...before, ...change }));
  const known = (namespaces.data?.rows ?? []).map((each) => each.namespace);
  const namesOf = (draft) => draft.chosen ?? (known.length <= MOST_ASKED ? known : []);
  const chosen = namesOf(state);
  const tooLong = state.text.trim().length > LONGEST;
  const ready = isReady(state, chosen);

  // The address says what is asked; whoever asks goes there.
  const given = query.toString();
  useEffect(() => {
    const draft = draftOf(query);
    if (session.get()) kept.address = draft && location.hash;
    if (draft) set(draft);
    if (draft?.chosen?.some((name) => !known.includes(name)) && namespaces.data) namespaces.reload();
  }, [given]);
  useEffect(() => {
    const draft = draftOf(query);
    const names = draft ? namesOf(draft) : [];
    setResults([null, null]);
    if (!draft || !namespaces.data || !isReady(draft, names)) return setAsked(null);
    remember(draft);
    return setAsked({
      key: `${given} ${again}`,
      bodies: draft.sides.slice(0, draft.two ? 2 : 1).map((side) => bodyOf({ ...draft, chosen: names }, side)),
    });
  }, [given, again, Boolean(namespaces.data)]);

  function ask(draft) {
    const address = addressOf(draft);
    if (new URLSearchParams(address.split("?")[1]).toString() === given) setAgain(again + 1);
    else location.hash = address;
  }
  function submit(event) {
    event.preventDefault();
    const every = known.length === chosen.length && known.every((name) => chosen.includes(name));
    if (ready) ask({ ...state, text: state.text.trim(), chosen: every ? null : chosen });
  }

  const note = (place) => (answer) => setResults((before) => before.map((each, at) => (at === place ? answer : each)));
  const setSide = (place) => (side) => set({ sides: state.sides.map((each, at) => (at === place ? side : each)) });
  const names = profiles.data?.map((each) => each.name) ?? ["default"];
  const two = asked?.bodies.length > 1;

  return html`
    <${Heading} title=${t("nav.playground")} about=${t("play.about")} />
    <${Loaded} of=${{ ...namespaces, reload: () => { namespaces.reload(); profiles.reload(); } }} lines=${3} isEmpty=${(data) => !data.rows.length}
      empty=${html`<${Empty} title=${t("play.no_documents")}><a class="button" href=${link("upload")}>${t("jobs.empty_do")}</a><${Samples} /><//>`}>
      ${(data) => html`
        <form class="panel form" onSubmit=${submit} role="search">
          <div class="ask">
            <${Text} label=${t("play.question")} value=${state.text} onInput=${(text) => set({ text })} class="grow" type="search"
              fault=${tooLong && t("ask.too_long", { most: LONGEST })} placeholder=${t("play.placeholder")} enterkeyhint="search" />
            <${Text} label=${t("play.top_k")} type="number" min="1" max="100" class="narrow" value=${state.topK} onInput=${(topK) => set({ topK })} />
            <button class="primary" disabled=${!ready}>${t("play.ask")}</button>
          </div>
          <div class="folds">
            <${Namespaces} key=${given} known=${known} cut=${data.cut} chosen=${chosen} onChange=${(names) => set({ chosen: names })} />
            <${Filters} namespaces=${chosen} value=${state.filters} onChange=${(filters) => set({ filters })}
              facets=${state.facets} onFacets=${(facets) => set({ facets })} group=${state.group} onGroup=${(group) => set({ group })} />
            <${History} again=${ask} />
            <${Check} label=${t("play.two")} checked=${state.two} onInput=${(on) => set({ two: on })} />
            ${profiles.error && html`<${Problem} error=${profiles.error} retry=${profiles.reload} />`}
            <${Fold} title=${t("ask.settings")} first=${matchMedia(ROOMY).matches}>
              <div class="sides">
                <${Settings} name=${state.two && "A"} value=${state.sides[0]} onInput=${setSide(0)} profiles=${names} />
                ${state.two && html`<${Settings} name="B" value=${state.sides[1]} onInput=${setSide(1)} profiles=${names} />`}
              </div>
            <//>
          </div>
        </form>
        ${asked
          ? html`<div class=${two ? "sides results" : "results"}>
              ${asked.bodies.map((body, place) => html`
                <${Side} key=${`${asked.key} ${place}`} body=${body} onAnswer=${note(place)} label=${two ? "AB"[place] : ""}
                  other=${results[1 - place]} writes=${config.data?.language_model} profiles=${names} onProfile=${profiles.reload}
                  filters=${state.filters} onFilters=${(filters, group = state.group) => ask({ ...state, filters, group, text: state.text.trim() })} />`)}
            </div>`
          : html`<${Empty} title=${t("play.start")}><p>${t("play.start_text")}</p><//>`}`}
    <//>`;
}

const ROOMY = "(min-width: 641px)"; // where the settings are open at first; below, they would push the answer off the screen

/** Whether a draft can be asked in these namespaces. */
function isReady({ text, filters }, names) {
  const asked = text.trim();
  return asked && asked.length <= LONGEST && !faultOf(filters) && names.length > 0 && names.length <= MOST_ASKED;
}

function Fold({ title, first, children }) {
  const [open, setOpen] = useState(first);
  return html`<details class="fold" open=${open} onToggle=${(event) => setOpen(event.target.open)}>
    <summary>${title}</summary>
    ${children}
  </details>`;
}
