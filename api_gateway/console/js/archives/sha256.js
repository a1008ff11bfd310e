// SHA-256 (FIPS 180-4) in hexadecimal. The browser's own is faster, and is absent from pages without https.
const primes = [];
for (let candidate = 2; primes.length < 64; candidate++) if (primes.every((prime) => candidate % prime)) primes.push(candidate);

const fraction = (root) => ((root - Math.floor(root)) * 2 ** 32) | 0;
const FIRST = primes.slice(0, 8).map((prime) => fraction(Math.sqrt(prime)));
const ROUNDS = primes.map((prime) => fraction(Math.cbrt(prime)));

export const hex = (bytes) => Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");

/** The digest of some bytes; null where the browser offers none, if `ours` is not asked for. */
export async function sha256(bytes, { ours = false } = {}) {
  if (globalThis.crypto?.subtle) return hex(await crypto.subtle.digest("SHA-256", bytes));
  return ours ? plain(bytes) : null;
}

export function plain(bytes) {
  const padded = new Uint8Array(Math.ceil((bytes.length + 9) / 64) * 64);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setBigUint64(padded.length - 8, BigInt(bytes.length) * 8n);
  const state = Int32Array.from(FIRST);
  const words = new Int32Array(64);
  const turn = (word, by) => (word >>> by) | (word << (32 - by));
  for (let at = 0; at < padded.length; at += 64) {
    for (let i = 0; i < 64; i++) {
      const [w15, w2] = [words[i - 15], words[i - 2]];
      words[i] = i < 16 ? view.getInt32(at + 4 * i)
        : words[i - 16] + words[i - 7] + (turn(w15, 7) ^ turn(w15, 18) ^ (w15 >>> 3)) + (turn(w2, 17) ^ turn(w2, 19) ^ (w2 >>> 10));
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let i = 0; i < 64; i++) {
      const first = h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + ROUNDS[i] + words[i];
      const second = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      [a, b, c, d, e, f, g, h] = [(first + second) | 0, a, b, c, (d + first) | 0, e, f, g];
    }
    [a, b, c, d, e, f, g, h].forEach((value, i) => { state[i] += value; });
  }
  const digest = new DataView(new ArrayBuffer(32));
  state.forEach((value, i) => digest.setInt32(4 * i, value));
  return hex(digest.buffer);
}
