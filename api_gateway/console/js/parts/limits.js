// The limits and formats of this installation, from the settings that the gateway gives to the page.
import { get } from "../api.js";
import { useLoad } from "../load.js";

/** `{document_bytes, body_bytes, documents_per_batch, preview_bytes, suffixes}` in `data`. */
export const useLimits = () => useLoad(async (signal) => (await get("console/config.json", { signal })).limits, []);
