// Measures of rankings and the significance of their differences: chordwise/evaluation/measures.py and significance.py, in
// JavaScript. A test compares both on the same rankings.

const gainOf = (gains) => gains.reduce((sum, gain, index) => sum + gain / Math.log2(index + 2), 0);
const gradeOf = (grades, id) => Math.max(0, Object.hasOwn(grades, id) ? grades[id] : 0);

/** Discounted gain of the first `k`, linear as in trec_eval, as a share of the best possible; 0 if nothing is relevant. */
export function ndcg(ranking, grades, k = 10) {
  const best = gainOf(Object.values(grades).filter((grade) => grade > 0).sort((a, b) => b - a).slice(0, k));
  return best ? Math.min(1, gainOf(ranking.slice(0, k).map((id) => gradeOf(grades, id))) / best) : 0;
}

/** One over the position of the first relevant document among the first `k`, else 0. */
export function reciprocalRank(ranking, grades, k = 10) {
  const at = ranking.slice(0, k).findIndex((id) => gradeOf(grades, id) > 0);
  return at < 0 ? 0 : 1 / (at + 1);
}

/** The share of the relevant documents among the first `k`. */
export function recall(ranking, grades, k = 100) {
  const relevant = Object.keys(grades).filter((id) => grades[id] > 0);
  const first = new Set(ranking.slice(0, k));
  return relevant.length ? relevant.filter((id) => first.has(id)).length / relevant.length : 0;
}

export const MEASURES = { "nDCG@10": ndcg, "MRR@10": reciprocalRank, "Recall@100": recall };

/** The smallest value that at least `percent` of the values do not exceed (nearest rank); null for no values. */
export function percentile(values, percent) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil((sorted.length * percent) / 100) - 1)] ?? null;
}

const TIE = 1e-9; // smaller differences are rounding errors
const EXACT = 12; // up to so many differences every assignment of signs is evaluated
const ROUNDS = 10000;

const sumOf = (values) => values.reduce((sum, value) => sum + value, 0);
const meanOf = (values) => (values.length ? sumOf(values) / values.length : 0);

/**
 * Compare two runs over the same queries: means, their difference, `p` (two-sided randomisation test; Fisher; Smucker et
 * al., CIKM 2007), the queries for which the second is better and worse, the standard error of the difference.
 */
export function paired(before, after) {
  const differences = after.map((value, index) => value - before[index]);
  const mean = meanOf(differences);
  const spread = sumOf(differences.map((each) => (each - mean) ** 2));
  const queries = differences.length;
  return {
    queries, before: meanOf(before), after: meanOf(after), difference: mean,
    error: queries > 1 ? Math.sqrt(spread / (queries - 1) / queries) : 0,
    p: chance(differences.filter((each) => Math.abs(each) > TIE)),
    better: differences.filter((each) => each > TIE).length, worse: differences.filter((each) => each < -TIE).length,
  };
}

function chance(differences) {
  const observed = Math.abs(sumOf(differences)) - TIE;
  const total = (sign) => Math.abs(differences.reduce((sum, each, index) => (sign(index) ? sum - each : sum + each), 0));
  if (differences.length <= EXACT) {
    const all = 2 ** differences.length;
    let reached = 0;
    for (let signs = 0; signs < all; signs += 1) if (total((index) => (signs >> index) & 1) >= observed) reached += 1;
    return reached / all;
  }
  const draw = generator();
  let reached = 1; // the observed assignment
  for (let round = 0; round < ROUNDS; round += 1) if (total(() => draw() & 1) >= observed) reached += 1;
  return reached / (ROUNDS + 1);
}

/** A generator of 32-bit numbers (mulberry32) that starts anew, so that a comparison has one `p`. */
function generator() {
  let state = 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return (mixed ^ (mixed >>> 14)) >>> 7;
  };
}
