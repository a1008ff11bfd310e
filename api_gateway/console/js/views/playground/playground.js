// One question, answered in one way, or in two side by side.
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
import { bodyOf, Settings } from "./settings.js";
import { faultOf, Filters, NO_FILTERS } from "./filters.js";
import { History, remember } from "./history.js";
import { MOST_ASKED, Namespaces, useEveryNamespace } from "./namespaces.js";
import { Side } from "./side.js";

const LONGEST = 8000; // characters of a question, as the API has it
const AS_PROFILE = { profile: "default", method: "", fusion: "", rerank: "", decay: "" };

const fresh = () => ({
  text: "", chosen: null, topK: "5", two: false, filters: NO_FILTERS, sides: [{ ...AS_PROFILE }, { ...AS_PROFILE, method: "semantic" }], asked: null,
});

// Kept while the user visits other pages of the tab; in memory only, and cleared on sign-out.
let kept = fresh();
session.subscribe((who) => { if (!who) kept = fresh(); });

export function Playground() {
  const namespaces = useEveryNamespace();
  const profiles = useLoad((signal) => get("v1/profiles", { signal }).then((page) => page.data), []);
  const config = useLoad((signal) => get("console/config.json", { signal }), []);
  const [state, setState] = useState(kept);
  const [results, setResults] = useState([null, null]);
  useEffect(() => { if (session.get()) kept = state; }, [state]);

  const set = (change) => setState((before) => ({ ...before, ...change }));
  const known = (namespaces.data?.rows ?? []).map((each) => each.namespace);
  const chosen = state.chosen ?? (known.length <= MOST_ASKED ? known : []);
  const tooLong = state.text.trim().length > LONGEST;
  const ready = state.text.trim() && !tooLong && !faultOf(state.filters) && chosen.length > 0 && chosen.length <= MOST_ASKED;

  const { query } = useStore(route);
  useEffect(() => {
    const text = query.get("text");
    if (!text) return;
    namespaces.reload();
    ask({ text, chosen: query.getAll("namespace"), topK: state.topK, two: false, filters: NO_FILTERS, sides: state.sides });
  }, [query]);

  function ask(draft) {
    setResults([null, null]);
    set({ ...draft, asked: {
      at: Date.now(),
      bodies: draft.sides.slice(0, draft.two ? 2 : 1).map((side) => bodyOf(draft, side)),
    } });
    remember(draft);
  }
  function submit(event) {
    event.preventDefault();
    const { text, topK, two, filters, sides } = state;
    if (ready) ask({ text: text.trim(), chosen, topK, two, filters, sides });
  }

  const note = (place) => (answer) => setResults((before) => before.map((each, at) => (at === place ? answer : each)));
  const setSide = (place) => (side) => set({ sides: state.sides.map((each, at) => (at === place ? side : each)) });
  const names = profiles.data?.map((each) => each.name) ?? ["default"];
  const two = state.asked?.bodies.length > 1;

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
          <${Namespaces} known=${known} cut=${data.cut} chosen=${chosen} onChange=${(names) => set({ chosen: names })} />
          <${Filters} namespaces=${chosen} value=${state.filters} onChange=${(filters) => set({ filters })} />
          ${profiles.error && html`<${Problem} error=${profiles.error} retry=${profiles.reload} />`}
          <div class="sides">
            <${Settings} name=${state.two && "A"} value=${state.sides[0]} onInput=${setSide(0)} profiles=${names} />
            ${state.two && html`<${Settings} name="B" value=${state.sides[1]} onInput=${setSide(1)} profiles=${names} />`}
          </div>
          <div class="buttons between"><${Check} label=${t("play.two")} checked=${state.two} onInput=${(on) => set({ two: on })} /><${History} again=${ask} /></div>
        </form>
        ${state.asked
          ? html`<div class=${two ? "sides results" : "results"}>
              ${state.asked.bodies.map((body, place) => html`
                <${Side} key=${`${state.asked.at}-${place}`} body=${body} onAnswer=${note(place)} label=${two ? "AB"[place] : ""}
                  other=${results[1 - place]} writes=${config.data?.language_model} profiles=${names} onProfile=${profiles.reload} />`)}
            </div>`
          : html`<${Empty} title=${t("play.start")}><p>${t("play.start_text")}</p><//>`}`}
    <//>`;
}
