// One question, answered in two ways side by side.
import { html, useEffect, useState } from "../../html.js";
import { get } from "../../api.js";
import { useLoad } from "../../load.js";
import { Check, Choice, Text, useNamespaces } from "../../parts/fields.js";
import { Samples } from "../../parts/samples.js";
import { Empty, Loaded, Problem } from "../../parts/states.js";
import { link, route } from "../../router.js";
import { session } from "../../session.js";
import { Heading } from "../../shell.js";
import { useStore } from "../../store.js";
import { t } from "../../words.js";
import { Side } from "./side.js";

const AS_PROFILE = { profile: "default", method: "", fusion: "", rerank: "", decay: "" };

const fresh = () => ({
  text: "", chosen: null, topK: "5", two: true, sides: [{ ...AS_PROFILE }, { ...AS_PROFILE, method: "semantic" }], asked: null,
});

// Kept while the user visits other pages of the tab; in memory only, and cleared on sign-out.
let kept = fresh();
session.subscribe((who) => { if (!who) kept = fresh(); });

export function Playground() {
  const namespaces = useNamespaces();
  const profiles = useLoad((signal) => get("v1/profiles", { signal }).then((page) => page.data), []);
  const [state, setState] = useState(kept);
  const [results, setResults] = useState([null, null]);
  useEffect(() => { if (session.get()) kept = state; }, [state]);

  const { query } = useStore(route);
  useEffect(() => {
    const text = query.get("text");
    if (!text) return;
    const chosen = query.getAll("namespace");
    namespaces.reload();
    set({ text, chosen, asked: { at: Date.now(), bodies: bodiesOf(text, chosen) } });
  }, [query]);

  const set = (change) => setState((before) => ({ ...before, ...change }));
  const chosen = state.chosen ?? (namespaces.data ?? []).map((each) => each.namespace).slice(0, 8);
  const ready = state.text.trim() && chosen.length > 0;

  function submit(event) {
    event.preventDefault();
    if (!ready) return;
    setResults([null, null]);
    set({ asked: { at: Date.now(), bodies: bodiesOf(state.text.trim(), chosen) } });
  }
  const bodiesOf = (text, from) => state.sides.slice(0, state.two ? 2 : 1).map((side) => bodyOf(text, from, state.topK, side));

  const note = (place) => (answer) => setResults((before) => before.map((each, at) => (at === place ? answer : each)));
  const setSide = (place) => (side) => set({ sides: state.sides.map((each, at) => (at === place ? side : each)) });
  const names = profiles.data?.map((each) => each.name) ?? ["default"];

  return html`
    <${Heading} title=${t("nav.playground")} about=${t("play.about")} />
    <${Loaded} of=${namespaces} lines=${3} isEmpty=${(data) => !data.length}
      empty=${html`<${Empty} title=${t("play.no_documents")}><a class="button" href=${link("upload")}>${t("jobs.empty_do")}</a><${Samples} /><//>`}>
      ${(known) => html`
        <form class="panel form" onSubmit=${submit} role="search">
          <div class="ask">
            <${Text} label=${t("play.question")} value=${state.text} onInput=${(text) => set({ text })} class="grow" type="search"
              placeholder=${t("play.placeholder")} enterkeyhint="search" />
            <${Text} label=${t("play.top_k")} type="number" min="1" max="100" class="narrow" value=${state.topK} onInput=${(topK) => set({ topK })} />
            <button class="primary" disabled=${!ready}>${t("play.ask")}</button>
          </div>
          <fieldset class="chips">
            <legend>${t("play.namespaces")}</legend>
            ${known.map((each) => html`<${Check} key=${each.namespace} label=${each.namespace} checked=${chosen.includes(each.namespace)}
              onInput=${(on) => set({ chosen: on ? [...chosen, each.namespace] : chosen.filter((name) => name !== each.namespace) })} />`)}
            <span class="spacer"></span>
            <${Check} label=${t("play.two")} checked=${state.two} onInput=${(two) => set({ two })} />
          </fieldset>
          ${profiles.error && html`<${Problem} error=${profiles.error} retry=${profiles.reload} />`}
          <div class="sides">
            <${Settings} name="A" value=${state.sides[0]} onInput=${setSide(0)} profiles=${names} />
            ${state.two && html`<${Settings} name="B" value=${state.sides[1]} onInput=${setSide(1)} profiles=${names} />`}
          </div>
        </form>
        ${state.asked
          ? html`<div class=${state.asked.bodies.length > 1 ? "sides results" : "results"}>
              ${state.asked.bodies.map((body, place) => html`
                <${Side} key=${`${state.asked.at}-${place}`} body=${body} onAnswer=${note(place)}
                  label=${"AB"[place]} other=${results[1 - place]} />`)}
            </div>`
          : html`<${Empty} title=${t("play.start")}><p>${t("play.start_text")}</p><//>`}`}
    <//>`;
}

function Settings({ name, value, onInput, profiles }) {
  const set = (field) => (text) => onInput({ ...value, [field]: text });
  const as = ["", t("play.as_profile")];
  return html`<fieldset class="side-settings">
    <legend><span class=${`letter ${name}`}>${name}</span></legend>
    <${Choice} label=${t("play.profile")} value=${value.profile} onInput=${set("profile")} options=${profiles.map((each) => [each, each])} />
    <${Choice} label=${t("play.method")} value=${value.method} onInput=${set("method")}
      options=${[as, ...["hybrid", "full_text", "semantic"].map((each) => [each, t(`method.${each}`)])]} />
    <${Choice} label=${t("play.fusion")} value=${value.fusion} onInput=${set("fusion")}
      options=${[as, ...["weighted", "rrf"].map((each) => [each, t(`fusion.${each}`)])]} />
    <${Choice} label=${t("play.rerank")} value=${value.rerank} onInput=${set("rerank")}
      options=${[as, ["on", t("field.on")], ["off", t("field.off")]]} />
    <${Text} label=${t("play.decay")} type="number" min="0.1" step="any" value=${value.decay} onInput=${set("decay")} placeholder=${t("play.as_profile")} />
  </fieldset>`;
}

function bodyOf(text, namespaces, topK, side) {
  const retrieve = {};
  if (side.method) retrieve.method = side.method;
  if (side.fusion) retrieve.fusion = { strategy: side.fusion };
  if (Number(side.decay) > 0) retrieve.time_decay = { half_life_days: Number(side.decay) };
  return {
    query_text: text,
    namespaces,
    profile: side.profile,
    ...(topK ? { top_k: Number(topK) } : {}),
    ...(side.rerank ? { enable_rerank: side.rerank === "on" } : {}),
    ...(Object.keys(retrieve).length ? { retrieve } : {}),
  };
}
