// Runs a build through a client that was generated from the API's document. Everything here is checked by the compiler
// against the document; clients.sh says how.

import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

const api = createClient<paths>({
  baseUrl: process.env.URL!,
  headers: { Authorization: `Bearer ${process.env.TOKEN!}` },
});

function must<T>(answer: { data?: T; error?: components["schemas"]["Error"]; response: Response }): T {
  if (answer.data !== undefined) return answer.data;
  throw new Error(`${answer.response.url}: ${answer.response.status} ${answer.error?.error.code}: ${answer.error?.error.message}`);
}

const me = must(await api.GET("/auth/me"));
console.log(`${me.user.name} of ${me.organization.name}, ${me.membership.role}`);
const projects = must(await api.GET("/projects", { params: { query: { limit: 1 } } }));
const id = projects.items[0]!.id;
const settings = must(await api.GET("/projects/{id}/build-settings", { params: { path: { id } } }));
const settingId = settings.items[0]!.id;
const started = must(
  await api.POST("/projects/{id}/build-settings/{settingId}/trigger", {
    params: { path: { id, settingId }, header: { "Idempotency-Key": crypto.randomUUID() } },
    body: {},
  }),
);
let build: components["schemas"]["BuildDetail"];
do {
  await new Promise((done) => setTimeout(done, 250));
  build = must(await api.GET("/builds/{id}", { params: { path: { id: started.buildId } } }));
} while (build.finishedAt === null);
console.log(`${build.id}: ${build.status} after ${build.durationMs} ms, ${build.logLines} lines`);
if (build.status !== "complete") throw new Error(JSON.stringify(build.failure));
const download = must(await api.GET("/builds/{id}/download", { params: { path: { id: build.id } } }));
const bytes = await (await fetch(download.url)).arrayBuffer();
if (bytes.byteLength !== download.sizeBytes) throw new Error(`${bytes.byteLength} of ${download.sizeBytes} bytes`);
const refused = await api.GET("/builds", { params: { query: { limit: 0 } } });
if (refused.error?.error.code !== "invalid_limit") throw new Error("a limit of 0 is refused");
console.log(`${download.sizeBytes} bytes, MD5 ${download.checksumMd5}`);
