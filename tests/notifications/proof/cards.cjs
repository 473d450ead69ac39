// Reads the Teams messages with Microsoft's own library of Adaptive Cards, which holds the schema of 1.4 and reports what does
// not fit it: unknown elements and properties, wrong values, missing ones.
const fs = require("node:fs");
const path = require("node:path");
const [directory, packages] = [process.argv[2], process.env.NODE_PATH];
const AdaptiveCards = require(path.join(packages, "adaptivecards/dist/adaptivecards.js"));

function problemsOf(card) {
  const parsed = new AdaptiveCards.AdaptiveCard();
  const context = new AdaptiveCards.SerializationContext(AdaptiveCards.Versions.v1_4);
  parsed.parse(card, context);
  const problems = parsed.validateProperties().validationEvents.map((event) => event.message);
  for (let at = 0; at < context.eventCount; at += 1) problems.push(context.getEventAt(at).message);
  // What the library understood, written again: nothing that was sent may be missing in it.
  const understood = JSON.stringify(parsed.toJSON());
  for (const text of texts(card)) {
    if (!understood.includes(JSON.stringify(text))) problems.push(`not understood: ${text.slice(0, 80)}`);
  }
  return { problems, items: parsed.getItemCount(), actions: parsed.getActionCount() };
}

function* texts(value, name = "") {
  if (typeof value === "string") {
    if (["text", "title", "url", "fallbackText"].includes(name)) yield value;
  } else if (value && typeof value === "object") {
    for (const [key, inner] of Object.entries(value)) yield* texts(inner, Array.isArray(value) ? name : key);
  }
}

const files = fs.readdirSync(directory).filter((name) => name.endsWith(".teams.json"));
if (files.length < 4) throw new Error(`only ${files.length} cards`);
let wrong = 0;
for (const name of files) {
  const message = JSON.parse(fs.readFileSync(path.join(directory, name), "utf8"));
  const { problems, items, actions } = problemsOf(message.attachments[0].content);
  wrong += problems.length;
  console.log(`${name}: ${JSON.stringify(message).length} bytes, ${items} elements, ${actions} actions`, problems);
}
// A check that cannot fail is none.
const broken = { type: "AdaptiveCard", version: "1.4", body: [{ type: "RichTextBlok" }, { type: "Container", style: "pink", items: [] }] };
if (problemsOf(broken).problems.length < 2) throw new Error("the library does not see what is wrong");
if (wrong > 0) process.exit(1);
console.log("the cards fit Adaptive Cards 1.4");
