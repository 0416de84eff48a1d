// Receives webhooks of looptrace and prints those whose signature holds: node receiver.mjs PORT
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const key = Buffer.from(process.env.LOOPTRACE_WEBHOOK_SECRET.replace(/^whsec_/, ""), "base64");

// Says whether a body is signed with the key, within five minutes; nothing in it can throw.
function verified(headers, body) {
  const at = headers["webhook-timestamp"] ?? "";
  if (!/^[0-9]{1,11}$/.test(at) || Math.abs(Date.now() / 1000 - Number(at)) > 300) return false;
  const hmac = createHmac("sha256", key).update(`${headers["webhook-id"] ?? ""}.${at}.`);
  const wanted = Buffer.from("v1," + hmac.update(body).digest("base64"));
  return (headers["webhook-signature"] ?? "").split(" ").some((given) => {
    const each = Buffer.from(given);
    return each.length === wanted.length && timingSafeEqual(each, wanted);
  });
}

createServer((request, response) => {
  const parts = [];
  request.on("error", () => response.destroy());
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    const body = Buffer.concat(parts);
    const ok = verified(request.headers, body);
    response.writeHead(ok ? 204 : 401).end();
    // The same id may come twice: do a thing once for each webhook-id.
    if (ok) console.log(request.headers["webhook-id"], body.toString());
  });
}).listen(Number(process.argv[2]), "127.0.0.1");
