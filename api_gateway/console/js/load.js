// Reading from the server inside a component, with the four states every view has to show.
import { useEffect, useRef, useState } from "./html.js";
import { get, isOutage, query } from "./api.js";
import { returns } from "./connection.js";

const SLOW_MS = 2500;
const RETRY_MS = 2000;
const LONGEST_RETRY_MS = 30000;

/**
 * `read(signal)` is called at first and whenever `keys` change. Returns `{data, readAt, error, loading, slow, reload}`; the
 * earlier data stays during a reload, and `readAt` (milliseconds) is its time. `everyMs`: the interval of reloads while
 * the page is visible; it also reloads when it becomes visible. After an outage it reloads by itself, at growing intervals,
 * and at once when the gateway returns.
 */
export function useLoad(read, keys, { everyMs = 0 } = {}) {
  const [state, setState] = useState({ data: undefined, readAt: null, error: null, loading: true, slow: false });
  const [turn, setTurn] = useState(0);
  const latest = useRef(read);
  latest.current = read;
  const forKeys = useRef(null);
  const failures = useRef(0);

  useEffect(() => {
    const controller = new AbortController();
    const fresh = forKeys.current !== JSON.stringify(keys);
    forKeys.current = JSON.stringify(keys);
    setState((before) => (fresh
      ? { data: undefined, readAt: null, error: null, loading: true, slow: false }
      : { ...before, loading: true, slow: false }));
    const timer = setTimeout(() => setState((before) => ({ ...before, slow: true })), SLOW_MS);
    latest.current(controller.signal)
      .then((data) => {
        failures.current = 0;
        setState({ data, readAt: Date.now(), error: null, loading: false, slow: false });
      })
      .catch((error) => {
        if (controller.signal.aborted) return;
        failures.current += 1;
        setState((before) => ({ ...before, error, loading: false, slow: false }));
      })
      .finally(() => clearTimeout(timer));
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [turn, ...keys]);

  useEffect(() => {
    const pause = state.error && isOutage(state.error)
      ? Math.min(RETRY_MS * 2 ** (failures.current - 1), everyMs || LONGEST_RETRY_MS) : everyMs;
    if (!pause || state.loading) return undefined;
    const timer = setTimeout(() => setTurn((n) => n + 1), document.hidden ? pause * 6 : pause);
    return () => clearTimeout(timer);
  }, [everyMs, state.loading, turn]);

  const waits = Boolean(state.error || everyMs);
  useEffect(() => (waits ? returns.subscribe(() => setTurn((n) => n + 1)) : undefined), [waits]);

  useEffect(() => {
    if (!everyMs) return undefined;
    const look = () => { if (!document.hidden) setTurn((n) => n + 1); };
    document.addEventListener("visibilitychange", look);
    return () => document.removeEventListener("visibilitychange", look);
  }, [everyMs]);

  return { ...state, reload: () => setTurn((n) => n + 1) };
}

/** A list with pages: `data` is `{rows, next}`; `more()` adds the next page. */
export function usePages(path, parameters, { everyMs = 0, limit = 50 } = {}) {
  const [pages, setPages] = useState({ for: "", rows: [], next: null, error: null, loading: false });
  const first = useLoad(
    (signal) => get(path + query({ ...parameters, limit }), { signal }),
    [path, JSON.stringify(parameters)],
    { everyMs: pages.rows.length ? 0 : everyMs }, // or the first page would come apart from the others
  );
  const here = path + JSON.stringify(parameters);
  const extra = pages.for === here ? pages : { for: here, rows: [], next: null, error: null, loading: false };

  async function more() {
    const cursor = extra.rows.length ? extra.next : first.data.next_cursor;
    setPages({ ...extra, loading: true, error: null });
    try {
      const page = await get(path + query({ ...parameters, limit, cursor }));
      setPages({ for: here, rows: [...extra.rows, ...page.data], next: page.next_cursor, error: null, loading: false });
    } catch (error) {
      setPages({ ...extra, error, loading: false });
    }
  }

  const reload = () => {
    setPages({ for: "", rows: [], next: null, error: null, loading: false });
    first.reload();
  };
  const next = extra.rows.length ? extra.next : first.data?.next_cursor;
  const data = first.data && { rows: [...first.data.data, ...extra.rows], next };
  return { ...first, data, more, loadingMore: extra.loading, moreError: extra.error, reload };
}

/** An action of the user: `{run, busy, error}`; `run` returns whether it succeeded. */
export function useAction(action) {
  const [state, setState] = useState({ busy: false, error: null });
  const alive = useRef(true);
  useEffect(() => () => { alive.current = false; }, []);

  async function run(...args) {
    if (state.busy) return false;
    setState({ busy: true, error: null });
    try {
      await action(...args);
      if (alive.current) setState({ busy: false, error: null });
      return true;
    } catch (error) {
      if (alive.current) setState({ busy: false, error });
      return false;
    }
  }
  return { ...state, run, clear: () => setState({ busy: false, error: null }) };
}
