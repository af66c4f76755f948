// Verifies all requests of a site's access logs with the library of another project, Cloudflare's:
//
//   node verify.mjs PUBLISHED VISITS...
//
// PUBLISHED has the directories of keys, each from a time on, as JSON lines; VISITS are access logs of the demo
// site. Each request is judged at its own time, with the keys that were published then. Each must be accepted as
// it came, and refused for another host, with another agent, and with another price. Exit code 0 only if so.
import { readFileSync } from "node:fs";
import { verify } from "web-bot-auth";
import { verifierFromJWK } from "web-bot-auth/crypto";

const OFFER = "crawler-exact-price";
const SystemDate = Date;
let now = 0;

// The library reads the clock; each request has its own time.
globalThis.Date = class extends SystemDate {
  constructor(...given) {
    super(...(given.length ? given : [now]));
  }
  static now() {
    return now;
  }
};

const lines = (file) => readFileSync(file, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));
const [published, ...logs] = process.argv.slice(2);
const directories = lines(published);
const verifiers = new Map();
for (const { keys } of directories) {
  for (const [keyid, x] of Object.entries(keys)) {
    verifiers.set(keyid, await verifierFromJWK({ kty: "OKP", crv: "Ed25519", x }));
  }
}

async function refusal(visit, headers, authority = visit.authority) {
  now = visit.wall;
  const known = directories.filter((each) => each.since <= visit.mono).at(-1)?.keys ?? {};
  const judge = (data, signature, params) => {
    if (!(params.keyid in known)) throw new Error(`the key ${params.keyid} is not published`);
    return verifiers.get(params.keyid)(data, signature, params);
  };
  const covered = headers["signature-input"] ?? "";
  if (headers[OFFER] && !covered.includes(`"${OFFER}"`)) return "the price is not covered";
  if (!covered.includes('"signature-agent"')) return "the agent is not covered";
  try {
    await verify({ method: visit.method, url: `http://${authority}${visit.path}`, headers }, judge);
    return "";
  } catch (error) {
    return error.message;
  }
}

const counts = { requests: 0, accepted: 0, with_price: 0, other_host: 0, other_agent: 0, other_price: 0 };
for (const visit of logs.flatMap(lines)) {
  const headers = visit.signature;
  const why = await refusal(visit, headers);
  counts.requests += 1;
  counts.accepted += why === "";
  if (why) console.log(`${visit.host}${visit.path}: ${why}`);
  counts.other_host += (await refusal(visit, headers, `other.example:${visit.authority.split(":")[1]}`)) !== "";
  counts.other_agent += (await refusal(visit, { ...headers, "signature-agent": '"https://evil.example"' })) !== "";
  if (headers[OFFER]) {
    counts.with_price += 1;
    counts.other_price += (await refusal(visit, { ...headers, [OFFER]: "USD 0.99" })) !== "";
  }
}
console.log(JSON.stringify(counts));
const { requests, with_price: offers } = counts;
const isRight = [counts.accepted, counts.other_host, counts.other_agent].every((count) => count === requests);
process.exitCode = requests && isRight && counts.other_price === offers ? 0 : 1;
