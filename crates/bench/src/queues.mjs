// 10,000 creates with 64 at a time; ten seconds in which nothing is due; 10,000 due over 10 s; 10,000 due at one instant.
// `overdue` makes what nobody works on, `restart` waits for the first of it. Prints one line of JSON.
import { readFileSync } from "node:fs";

const [, , name, url, part] = process.argv;
const COUNT = 10_000, AT_ONCE = 64, SPREAD_MS = 10_000;
const OVERDUE = 100, OVERDUE_MS = 1_500, SETTLE_MS = 3_000, WATCHED_MS = 10_000;
const version = JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version;
const later = new Date(Date.now() + 86_400_000);
let fired = () => {};

async function graphile() {
  const { Logger, makeWorkerUtils, run } = await import("graphile-worker");
  const logger = new Logger(() => () => {}); // a line for each job would be measured too
  const utils = await makeWorkerUtils({ connectionString: url, maxPoolSize: AT_ONCE, logger });
  await utils.migrate();
  const taskList = { measured: async (payload) => fired(payload.due), later: async () => {} };
  return {
    create: (task, due) => utils.addJob(task, { due: +due }, { runAt: due }),
    start: () => run({ connectionString: url, concurrency: 24, pollInterval: 100, maxPoolSize: 30, noHandleSignals: true, logger, taskList }),
  };
}

async function pgboss() {
  const module = await import("pg-boss");
  const PgBoss = module.PgBoss ?? module.default;
  const boss = new PgBoss({ connectionString: url, max: AT_ONCE });
  boss.on("error", () => {});
  await boss.start();
  for (const queue of ["measured", "later"]) await boss.createQueue(queue);
  return {
    create: (queue, due) => boss.send(queue, { due: +due }, { startAfter: due }),
    start: () => boss.work("measured", { pollingIntervalSeconds: 0.5, batchSize: 1000 }, async (jobs) => {
      for (const job of jobs) fired(job.data.due);
    }),
  };
}

async function many(count, make) {
  let next = 0;
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    while (next < count) await make(next++);
  }));
}

async function late(queue, due) {
  const seen = [];
  const all = new Promise((done) => {
    fired = (at) => { seen.push(Date.now() - at); if (seen.length === COUNT) done(); };
  });
  await many(COUNT, (number) => queue.create("measured", new Date(due(number))));
  await all;
  return seen.sort((a, b) => a - b);
}

function said(result) {
  console.log(JSON.stringify(result));
  process.exit(0);
}

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

async function rest() {
  await sleep(SETTLE_MS);
  const before = process.cpuUsage();
  await sleep(WATCHED_MS);
  const { user, system } = process.cpuUsage(before);
  return { resident: process.memoryUsage().rss / 1048576, cpu: (user + system) / 1000 };
}

const queue = await (name === "pg-boss" ? pgboss() : graphile());
if (part === "overdue") {
  const due = new Date(Date.now() + OVERDUE_MS);
  await many(OVERDUE, () => queue.create("measured", due));
  said({});
}
if (part === "restart") {
  const first = new Promise((done) => { fired = () => done(Date.now()); });
  await queue.start();
  said({ first: await first });
}
const began = performance.now();
await many(COUNT, () => queue.create("later", later));
const creates = COUNT / ((performance.now() - began) / 1000);
await queue.start();
const { resident, cpu } = await rest();
// Nothing is due before all of it is made.
const lead = (COUNT / creates) * 1000 * 1.5 + 3000;
let base = Date.now() + lead;
const spread = await late(queue, (number) => base + (number * SPREAD_MS) / COUNT);
base = Date.now() + lead;
const burst = await late(queue, () => base);
said({ version, creates, p50: spread[COUNT / 2], p99: spread[COUNT * 0.99], burst: burst[COUNT - 1], resident, cpu });
